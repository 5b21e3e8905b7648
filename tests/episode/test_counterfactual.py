"""Flips: the cost with one decision flipped, and many in one compile: what each can change, and its bytes."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym import ActionError, DecisionSite, MlgoError
from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.attribution.affected_functions import (
    FlipEffects,
    Reach,
    causes_of_changes,
    flip_effects,
    independent,
)
from mlgo_gym.episode.attribution.inline_compile import InlineDecision
from tests.fakes import drive

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def run(env: InlineEnv, answers: dict[DecisionSite, int], **options: Any) -> tuple[list[Any], dict[str, Any]]:
    """Run an episode with answers by site; return its sites and its last info."""
    infos, last = drive.run(env, lambda info: answers.get(info["site"], info["default_action"]), seed=0, **options)
    return [info["site"] for info in infos], last.info


def test_it_is_the_cost_of_the_episode_with_one_decision_flipped(families: Path) -> None:
    with InlineEnv(corpus=str(families), credit=True) as env:
        sites, _ = run(env, {})
        generator = random.Random(3)
        answers = {site: int(generator.random() < 0.5) for site in sites}
        sites, info = run(env, answers)
        actions = env.actions
        number = len(sites) // 2
        keys: list[Any] = [np.int64(number), sites[number], tuple(sites[number])]
        by_index, by_site, by_numbers = env.counterfactual(*keys)
        assert by_index == by_site == by_numbers
        assert by_index.site == sites[number]
        assert by_index.action == actions[number]
        assert by_index.cost == info["text"]
        assert env.actions == actions
        _, other = run(env, {**answers, sites[number]: 1 - by_index.action})
        assert by_index.alternative_cost == other["text"]
        assert by_index.saved == other["text"] - info["text"]


def test_any_number_of_decisions_is_flipped(families: Path) -> None:
    with InlineEnv(corpus=str(families), max_decisions=1) as env:
        _, info = env.reset()
        _, _, _, _, info = env.step(info["default_action"])
        number = 1 + info["handed_over"]
        assert number > 16
        found = env.counterfactual(*range(number))
        assert [each.decision_index for each in found] == list(range(number))


def test_an_unknown_decision_is_an_error(families: Path) -> None:
    with InlineEnv(corpus=str(families)) as env:
        with pytest.raises(ActionError, match="reset"):
            env.counterfactual(0)
        env.reset(seed=0)
        with pytest.raises(MlgoError, match="nowhere"):
            env.counterfactual(DecisionSite("nowhere", 0, 0))
        for wrong in (1.7, True, np.True_, "1", -1, ("f",)):
            with pytest.raises(MlgoError, match="expected a decision's index ≥ 0, got"):
                env.counterfactual(wrong)  # type: ignore[arg-type, unused-ignore]  # by the stubs of other libraries


def call(component: str, callee: str, answer: int = 0, index: int = 0) -> InlineDecision:
    return InlineDecision(DecisionSite(component, 0, index), callee, answer, 0, b"")


def test_at_most_so_many_independent_flips_are_chosen() -> None:
    affected = {"first": {"a", "b"}, "second": {"b", "c"}, "third": {"c"}, "fourth": {"d"}}
    assert independent(affected, affected.__getitem__, 2) == ["first", "third"]


def test_the_effect_of_a_flip_is_the_change_that_it_alone_reaches() -> None:
    """Effects are unreliable where much is unexplained."""
    sizes = {"f": 10, "g": 10, "a": 5, "b": 5, "other": 90}
    one, shared, other = call("f", "a"), call("f", "b", index=1), call("g", "b")
    for before, changes, effects, unexplained, is_reliable in (
        ([one, other], {"f": 2, "a": -5, "g": 7}, {0: -3, 1: 7}, 0, True),
        ([one, shared, other], {"f": 8, "g": 1}, {2: 1}, 0, True),
        ([one], {"f": 100, "other": -90}, {0: 100}, 90, False),
    ):
        found = flip_effects(before, [flipped._replace(answer=1) for flipped in before], changes, before, sizes)
        assert (found.bytes, found.unexplained, found.is_reliable) == (effects, unexplained, is_reliable)
        assert found.changed == sum(map(abs, changes.values()))


def test_code_reaches_the_functions_that_it_is_inlined_into() -> None:
    reach = Reach([[call("b", "a", 1), call("c", "b", 1), call("d", "b", 0)]])
    assert reach.of("a") == {"a": 0, "b": 1, "c": 2}
    assert reach.of_context("b, c") == {"b": 0, "c": 0}


def test_where_calls_count_a_function_changes_with_its_callers_at_the_distance_of_the_nearest() -> None:
    """`far` is called by `near`, which the changed `f` calls; only a metric that counts calls sees that."""
    before = [call("f", "a"), call("f", "near", index=1), call("near", "far"), call("g", "alone")]
    after = [before[0]._replace(answer=1), *before[1:]]
    changes, sizes = {"f": 2, "a": -5, "far": 7, "alone": 3}, dict.fromkeys(("f", "a", "near", "far", "alone"), 5)
    flips = [[before[0]]]
    assert causes_of_changes(before, after, changes, flips, sizes, counts_calls=True) == {
        "f": {0: 0},
        "a": {0: 1},
        "far": {0: 2},
    }
    assert {*causes_of_changes(before, after, changes, flips, sizes)} == {"f", "a"}


def test_effects_are_reliable_up_to_64_bytes_or_a_quarter() -> None:
    for unexplained, changed, reliable in ((64, 0, True), (65, 0, False), (100, 400, True), (101, 400, False)):
        assert FlipEffects({}, unexplained, changed).is_reliable is reliable
