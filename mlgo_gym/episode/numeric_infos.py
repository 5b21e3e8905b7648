"""Infos of which every key is always there and always a number or an array of one shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.tasks.measurement import SIZE_NAMES
from mlgo_gym.tasks.task import Task


class NumericInfos:
    """Makes infos numeric, for libraries that stack those of several environments or steps.

    What an info does not have is 0; strings, lists and dictionaries are left out. `module` is the position of the
    module in the corpus, and `failed` tells that the compile failed.

    Args:
        task: whose infos they are.
    """

    def __init__(self, task: Task) -> None:
        self._nothing: dict[str, Any] = {"module": -1, "decision": 0, "default_action": 0}
        space = task.action_space
        if not isinstance(space, gym.spaces.Discrete):
            self._nothing["default_action"] = np.zeros(space.shape or (), space.dtype)
        elif task.masked:
            self._nothing["action_mask"] = np.zeros(int(space.n), np.int8)
        self._nothing |= {"illegal_action": False, "failed": False, "decisions": 0, "handed_over": 0, "reduction": 0.0}
        for prefix in ("", "baseline_"):
            self._nothing |= {f"{prefix}{name}": 0 for name in SIZE_NAMES}
            self._nothing |= {f"{prefix}{name}": 0.0 for name in task.function_metrics}

    def of(self, info: Mapping[str, Any], corpus: Corpus) -> dict[str, Any]:
        """Return an info with all keys.

        Args:
            info: an info as an episode has it.
            corpus: the modules.
        """
        numeric = {key: info.get(key, nothing) for key, nothing in self._nothing.items()}
        numeric["module"] = corpus.position(info["module"])
        numeric["failed"] = "error" in info
        return {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in numeric.items()}
