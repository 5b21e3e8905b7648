"""Decisions as pictures."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.errors import MissingExtraError
from mlgo_gym.tasks.render import EpisodePicture, font
from mlgo_gym.tasks.task import Task
from mlgo_gym.testing import running_compile

pytest.importorskip("PIL", reason="the extra render is not installed")

Picture = npt.NDArray[np.uint8]

STRIP = (slice(262, 276), slice(12, -12))
"""Where a picture shows what was decided."""


@pytest.fixture(params=["mlgo/Inline-v0", "mlgo/RegAllocPriority-v0", "mlgo/Joint-v0"])
def waiting(request: pytest.FixtureRequest, varied: str) -> Iterator[tuple[Task, Decision, Any]]:
    """A task, a decision of its, and an action other than clang's own choice."""
    env: Any = gym.make(request.param, corpus=varied).unwrapped
    _, info = env.reset(seed=1, options={"module": "mixed"})
    default = info["default_action"]
    other = default / 2 if isinstance(default, np.ndarray) else 1 - default if default in (0, 1) else default - 1
    decision = running_compile(env).decision
    assert decision is not None
    yield env.task, decision, other
    env.close()


def colours(picture: Picture) -> set[tuple[int, ...]]:
    return {tuple(colour) for colour in np.unique(picture[STRIP].reshape(-1, 3), axis=0).tolist()}


def test_what_was_decided_shows_whether_clang_would_have(waiting: tuple[Task, Decision, Any]) -> None:
    task, decision, other = waiting
    seen = []
    for action, illegal in ((task.default_action(decision), False), (other, False), (other, True)):
        view = EpisodePicture(task)
        assert len(colours(view.draw(decision))) == 1
        view.decide(decision, action, illegal=illegal)
        (fill,) = colours(view.draw(decision)) - colours(EpisodePicture(task).draw(decision))
        seen.append(fill)
    assert len(set(seen)) == 3


def test_ends_that_differ_and_a_failure_look_different(waiting: tuple[Task, Decision, Any]) -> None:
    drawn = [EpisodePicture(waiting[0]).draw(None).tobytes()]
    for info in (
        {"reduction": 0.1, "text": 900, "baseline_text": 1000},
        {"reduction": -0.1, "text": 1100, "baseline_text": 1000},
        {"error": {"message": "clang crashed\nat line 1"}},
    ):
        view = EpisodePicture(waiting[0])
        view.end(info)
        drawn.append(view.draw(None).tobytes())
    assert len({*drawn}) == 4


def test_a_copy_goes_on_alone(waiting: tuple[Task, Decision, Any]) -> None:
    task, decision, other = waiting
    view = EpisodePicture(task)
    before = view.draw(decision)
    copied = view.copy()
    copied.decide(decision, other)
    assert np.array_equal(view.draw(decision), before)
    assert not np.array_equal(copied.draw(decision), before)


def test_more_decisions_than_columns_show_the_last_ones(waiting: tuple[Task, Decision, Any]) -> None:
    task, decision, other = waiting
    view = EpisodePicture(task)
    for number in range(1000):
        view.decide(decision, task.default_action(decision) if number < 500 else other)
    assert len(colours(view.draw(decision))) == 1


def test_without_pillow_it_says_which_extra_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.ImageFont", None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match="render_mode=\"rgb_array\" needs the extra 'render'"):
        font(13)
