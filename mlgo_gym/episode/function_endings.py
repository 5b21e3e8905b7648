"""How the episodes of several functions ended that were one compile: each gets the bytes that its decisions moved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mlgo_gym.episode.credit import credit
from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.outcome import Ending
from mlgo_gym.episode.setup import Setup
from mlgo_gym.tasks.reward import REWARDS


def function_endings(setup: Setup, episode: Episode, outcome: dict[str, Any]) -> dict[str, Ending]:
    """Return the ending of each function's episode, by function.

    What the module gained or lost is shared by the credit of the decisions (`mlgo_gym.episode.credit`), so that the
    bytes of all functions together are those of the compile. A function's cost is that of the module with its own
    bytes alone, and so the reward is in the unit of an episode that has a compile of its own.

    Args:
        setup: what all episodes of the environment have in common.
        episode: the compile that is over, with credit.
        outcome: the info of its end.
    """
    placed, baseline = episode.placed, episode.baseline
    assert placed is not None, "several functions of one compile need its credit"
    assert baseline is not None
    found = credit(setup.reference(episode.compilation), placed, episode.own)
    reference = setup.task.outcome(baseline, setup.metric)
    endings = {}
    for function, numbers in _by_function(episode, (placed.decisions[at].component for at in episode.own)).items():
        saved = found.bytes[numbers]
        cost = reference - float(saved.sum())
        info = {**outcome, "context": function, "decisions": episode.answered[function], "saved": float(saved.sum())}
        info["handed_over"] = episode.handed_over_in[function]
        info["reduction"] = REWARDS["relative"](cost, reference)
        if setup.settings.credit:
            info["credit"] = tuple(saved.tolist())
        endings[function] = Ending(REWARDS[setup.reward](cost, reference), False, info)
    return endings


def _by_function(episode: Episode, functions: Iterable[str]) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the positions of the agent's decisions among all, by function."""
    numbers: dict[str, list[int]] = {}
    for at, function in zip(episode.own, functions, strict=True):
        numbers.setdefault(function, []).append(at)
    return {function: np.array(each, np.int64) for function, each in numbers.items()}
