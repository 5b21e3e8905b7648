"""Numeric infos: every key at each step, each value a number or an array of one shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.tasks.measurement import SIZE_METRICS
from mlgo_gym.tasks.task import Task


def absent_choices(task: Task) -> dict[str, Any]:
    """Return zeros in the form of `default_action`, and of `action_mask` if actions are masked."""
    space = task.action_space
    if not isinstance(space, gym.spaces.Discrete):
        return {"default_action": np.zeros(space.shape or (), space.dtype)}
    return {"default_action": 0} | ({"action_mask": np.zeros(int(space.n), np.int8)} if task.masked else {})


class NumericInfos:
    """Converts infos for libraries that stack those of several environments or steps.

    Missing values are 0. Strings, lists and dictionaries are dropped. `module` is the position of the module in the
    corpus, and `failed` marks a failed compile.

    Args:
        task: The task of the environment.
        metric: The rewarded metric.
    """

    def __init__(self, task: Task, metric: str) -> None:
        self._defaults: dict[str, Any] = {"module": -1, "decision_index": 0, **absent_choices(task)}
        self._defaults |= {"illegal_action": False, "failed": False, "decisions": 0, "handed_over": 0, "reduction": 0.0}
        for prefix in ("", "baseline_"):
            self._defaults |= {f"{prefix}{name}": 0 for name in SIZE_METRICS}
            self._defaults |= {f"{prefix}{name}": 0.0 for name in task.function_metrics}
            self._defaults.setdefault(f"{prefix}{metric}", 0.0)

    def of(self, info: Mapping[str, Any], corpus: Corpus) -> dict[str, Any]:
        """Return the numeric form of an info about a module of a corpus."""
        numeric = {key: info.get(key, default) for key, default in self._defaults.items()}
        numeric["module"] = corpus.position(info["module"])
        numeric["failed"] = bool(info.get("error"))
        return {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in numeric.items()}
