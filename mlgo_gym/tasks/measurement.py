"""The measurements of one finished compile, and rewards: functions of the cost of an episode and of its baseline."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.compiler.connection import CompileResult
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.allocation_record import read_allocation_record
from mlgo_gym.llvm.sizes import ObjectSizes, object_sizes

SIZE_METRICS = ("text", "llvm_size", "loaded", "object")
"""Metrics of an object file, in bytes; the fields of `ObjectSizes`.

A metric has one spelling everywhere: the argument `metric`, results, reports, and the last `info` of an episode. There
`info[METRIC]` is the value of the episode's compile, and `info["baseline_" + METRIC]` that of a plain compile. Metrics
of a task, such as `spill_cost`, follow the same rule.
"""

INSTRUCTIONS = "instructions"
"""Metric of a module of runnable programs: the instructions that they execute, counted."""

LINKED = "linked"
"""Metric of a module of a recorded build: bytes of the executable sections of the linked files that contain it."""

PROJECT_METRICS = (INSTRUCTIONS, LINKED)
"""Metrics that depend on the other modules of the project, which plain clang compiles."""

MAX_FRAME = "max_frame"
"""Metric in bytes: the largest stack frame of a function, as `-fstack-usage` has it; calls do not add up."""

BYTE_METRICS = (*SIZE_METRICS, LINKED, MAX_FRAME)
"""Metrics in bytes."""

WEIGHTED = "weighted"
"""Metric of an environment with weights: 1 minus the sum of the relative reductions, each times its weight."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The sizes and costs of one compile.

    Attributes:
        sizes: None where the compile was ended before there was an object file.
        allocation: weighted cost of register allocation by function, empty without the optimisation record.
        frames: bytes of the stack frame of each function; None for a compile without `STACK_USAGE_FLAGS`.
        project: the rewarded metrics of `PROJECT_METRICS`; not part of `to_json()`, as they depend on other modules.
    """

    sizes: ObjectSizes | None
    allocation: Mapping[str, float] = field(default_factory=dict)
    frames: Mapping[str, int] | None = None
    project: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, compiled: CompileResult) -> "Measurement":
        """Measure a finished compile; raise `CompilerError` of kind `object` if object or record cannot be read."""
        data = compiled.object_bytes
        try:
            allocation = read_allocation_record(compiled.optimization_record)
            return cls(object_sizes(data), allocation, frames_of(compiled))
        except MlgoError as error:
            message = f"clang succeeded, but its object cannot be measured: {error}"
            raise CompilerError(message, kind="object", exit_status=0, stderr=compiled.stderr) from error

    def costs(self) -> dict[str, float]:
        """Return the costs of the module by metric, as far as this compile has them; sizes and frames are integers."""
        sizes = {} if self.sizes is None else asdict(self.sizes)
        frames = {} if self.frames is None else {MAX_FRAME: max(self.frames.values(), default=0)}
        return {**sizes, **frames, **self.project}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Measurement":
        """Build a measurement from `to_json()`'s result; other data raise a KeyError or TypeError."""
        costs = {function: float(cost) for function, cost in value["allocation"].items()}
        return cls(ObjectSizes(**value["sizes"]), costs, value.get("frames"))

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        assert self.sizes is not None, "what was ended early is no baseline"
        record: dict[str, Any] = {"sizes": asdict(self.sizes), "allocation": dict(self.allocation)}
        if self.frames is not None:
            record["frames"] = dict(self.frames)
        return record


def frames_of(compiled: CompileResult) -> dict[str, int] | None:
    """Return the bytes of the stack frame of each function; None for a compile without `STACK_USAGE_FLAGS`."""
    if compiled.stack_usage is None:
        return None
    # Each line has the place in the source with a colon and the name, the bytes and their kind, with tabs between.
    rows = [line.rsplit("\t", 2) for line in compiled.stack_usage.decode(errors="surrogateescape").splitlines()]
    return {place.rpartition(":")[2]: int(size) for place, size, _ in rows}


RewardFunction = Callable[[float, float], float]
"""Takes the outcome and the baseline, both costs (smaller is better), and returns the reward."""


def relative(outcome: float, baseline: float) -> float:
    """Return `(baseline - outcome) / max(baseline, 1)`: 0.02 means 2 % less than the baseline.

    A baseline below 1, such as no spill at all, counts as 1: the result is the difference.
    """
    return (baseline - outcome) / max(baseline, 1.0)


def difference(outcome: float, baseline: float) -> float:
    """Return `baseline - outcome`, in the unit of the metric: bytes, or units of cost."""
    return float(baseline - outcome)


WORST = 10.0
"""How many times plain clang's cost an episode may cost more: the reward does not fall further."""


def worst_cost(baseline: float, weight: float = 1.0) -> float:
    """Return the cost of a failed compile, and the largest that is rewarded: no policy gains by making clang fail.

    `weight` is the sum of the weights of the rewarded metrics.
    """
    return baseline + WORST * weight * max(baseline, 1.0)


REWARDS: dict[str, RewardFunction] = {"relative": relative, "bytes": difference}
"""The rewards by the names that environments take."""

_STEP = 1e-6
"""Step, relative to the baseline, that gives the slope of a reward where the cost did not change."""


def decision_rewards(
    saved: npt.NDArray[np.float64], reward: RewardFunction, outcome: float, baseline: float
) -> npt.NDArray[np.float64]:
    """Return the reward of each decision, float64 of shape (decisions,): the cost `saved` in the unit of the reward."""
    if outcome == baseline:
        outcome -= _STEP * max(baseline, 1.0)
    return saved * (reward(outcome, baseline) / (baseline - outcome))
