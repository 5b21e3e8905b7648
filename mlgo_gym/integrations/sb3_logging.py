"""`ReductionLogger`: the cost that a Stable-Baselines3 agent saves, by project, and its failures, as curves."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from mlgo_gym.errors import MissingExtraError

try:
    from stable_baselines3.common.callbacks import BaseCallback
except ImportError as error:
    raise MissingExtraError("the adapter for stable-baselines3", "sb3") from error

_UNNAMED = "modules"
"""Name of the project of modules without a folder."""


class ReductionLogger(BaseCallback):
    """Logs the relative reduction of the rewarded metric by project, and the rate of failed compiles.

    The logger of Stable-Baselines3 writes the curves, to TensorBoard with `tensorboard_log=`. Weights & Biases copies
    them with `wandb.init(sync_tensorboard=True)`.

    ```python
    agent = PPO("MlpPolicy", VecEnvAdapter(envs), tensorboard_log="runs")
    agent.learn(100_000, callback=[CreditAdvantages(), ReductionLogger()])
    ```

    | curve | value |
    |---|---|
    | `reduction/all` | mean of the reductions of all episodes |
    | `reduction/PROJECT` | mean of the reductions of the episodes of a project: the first folder of the module's name |
    | `failures/rate` | share of the episodes whose compile failed, 0 to 1 |
    | `failures/KIND` | share of the episodes with a failure of this kind, such as `timeout` |

    Means are over the episodes that ended since the last writing; a failed episode has no reduction.

    Args:
        episodes: Number of ended episodes per writing (≥ 1).
    """

    def __init__(self, episodes: int = 100) -> None:
        super().__init__()
        self._per_writing = episodes
        self._reductions: dict[str, list[float]] = defaultdict(list)
        self._failures: dict[str, int] = defaultdict(int)
        self._ended = 0

    def _on_step(self) -> bool:
        for row in np.flatnonzero(self.locals["dones"]).tolist():
            self._add(self.locals["infos"][row])
        if self._ended >= self._per_writing:
            self._write()
        return True

    def _on_training_end(self) -> None:
        if self._ended:
            self._write()

    def _add(self, info: dict[str, Any]) -> None:
        self._ended += 1
        error = info.get("error")
        if error or info.get("failed"):
            self._failures[error["kind"] if isinstance(error, dict) else "compile"] += 1
        elif "reduction" in info:
            reduction = float(info["reduction"])
            self._reductions["all"].append(reduction)
            module = info.get("module")
            if isinstance(module, str):
                self._reductions[module.partition("/")[0] if "/" in module else _UNNAMED].append(reduction)

    def _write(self) -> None:
        for project, reductions in self._reductions.items():
            self.logger.record(f"reduction/{project}", float(np.mean(reductions)))
        self.logger.record("failures/rate", sum(self._failures.values()) / self._ended)
        for kind, count in self._failures.items():
            self.logger.record(f"failures/{kind}", count / self._ended)
        self.logger.dump(self.num_timesteps)
        self._reductions.clear()
        self._failures.clear()
        self._ended = 0
