"""Curves of a training run, for any logger: reductions by project, and the rate of failed compiles."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.episode.argument_types import whole_number
from mlgo_gym.episode.vector.in_process import unbatch_infos

_UNNAMED = "modules"
"""Name of the project of modules without a folder."""


class ReductionLog:
    """Means of the relative reduction of the rewarded metric by project, and the rate of failed compiles.

    ```python
    log = ReductionLog(lambda curves: wandb.log(curves))
    observations, rewards, terminations, truncations, infos = envs.step(actions)
    log(terminations | truncations, infos)
    ```

    | curve | value |
    |---|---|
    | `reduction/all` | mean of the reductions of all episodes |
    | `reduction/PROJECT` | mean of the reductions of the episodes of a project: the first folder of the module's name |
    | `failures/rate` | share of the episodes whose compile failed, 0 to 1 |
    | `failures/KIND` | share of the episodes with a failure of this kind, such as `timeout` |

    Means are over the episodes that ended since the last writing. A failed episode has no reduction.

    Args:
        write: Takes the curves by name, floats.
        episodes: Number of ended episodes per writing (≥ 1).
    """

    def __init__(self, write: Callable[[dict[str, float]], object], episodes: int = 100) -> None:
        self._write, self._per_writing = write, whole_number("episodes", episodes, 1)
        self._reductions: dict[str, list[float]] = defaultdict(list)
        self._failures: dict[str, int] = defaultdict(int)
        self._ended = 0

    def __call__(self, over: bool | npt.NDArray[np.bool_], info: Mapping[str, Any]) -> None:
        """Add the results of a step, and write the curves if enough episodes have ended.

        Args:
            over: Whether the episode has ended, by termination or truncation; or booleans of shape (rows,).
            info: Info of the step, of one environment or of a vector environment with as many rows.
        """
        flags = np.atleast_1d(over)
        infos = unbatch_infos(info, len(flags)) if np.ndim(over) else [info]
        for row in np.flatnonzero(flags).tolist():
            self._add(infos[row].get("final_info", infos[row]))
        if self._ended >= self._per_writing:
            self.flush()

    def _add(self, info: Mapping[str, Any]) -> None:
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

    def flush(self) -> None:
        """Write the curves of the episodes since the last writing, if there are any."""
        if not self._ended:
            return
        curves = {f"reduction/{project}": float(np.mean(values)) for project, values in self._reductions.items()}
        curves["failures/rate"] = sum(self._failures.values()) / self._ended
        curves |= {f"failures/{kind}": count / self._ended for kind, count in self._failures.items()}
        self._reductions.clear()
        self._failures.clear()
        self._ended = 0
        self._write(curves)
