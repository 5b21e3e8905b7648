"""The small interface that a file in `envs/` fills in: what is different about one kind of decision."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector.utils import create_empty_array

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.errors import ActionError, MlgoError
from mlgo_gym.llvm.advisors import Advisor
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.llvm.training_log import LogHeader
from mlgo_gym.tasks.features import FeatureTable
from mlgo_gym.tasks.measurement import MAX_FRAME, PROJECT_METRICS, SIZE_METRICS, Measurement

GRAPH = "graph"
"""The form of an observation that is the call graph."""


class Task(ABC):
    """One kind of decision: its spaces, the encoding of its actions, and its metrics.

    A task is made with its own options, then bound to the headers of one compiler: headers, spaces and feature names
    come from the compiler and not from a table.
    """

    name: ClassVar[str]
    """Short name, also of cached counts."""

    advisors: ClassVar[tuple[Advisor, ...]]
    """The advisors, in the order in which clang opens their channels."""

    optimization_record: ClassVar[bool] = False
    """Whether the outcome needs the register allocator's optimisation record."""

    after_optimization: ClassVar[bool] = False
    """Whether every decision comes after the IR was optimised, so that this can be done once per module."""

    has_contexts: ClassVar[bool] = False
    """Whether each decision belongs to a function, so that an episode can be one function."""

    default_metric: ClassVar[str] = "text"
    """The metric of the reward unless the user chooses another."""

    function_metrics: ClassVar[tuple[str, ...]] = ()
    """The metrics of one function, known as soon as code generation turns to the next."""

    observations: ClassVar[tuple[str, ...]] = ("flat", "vector")
    """The forms of an observation; `vector` differs from `flat` where actions are masked."""

    max_functions = 0
    """Largest number of functions in an observation of the call graph."""

    tables: ClassVar[tuple[FeatureTable, ...]]
    """The meaning of the features: the tables of the manual page."""

    policies: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}
    """Builtin policies of this task, by name; each is made from an environment."""

    advice_unit: ClassVar[float] = 1.0
    """The advice that clang is sent for an action of 1: a model that was trained within clang gives advice."""

    headers: tuple[LogHeader, ...]
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    feature_names: tuple[str, ...]

    def flags(self, toolchain: Toolchain) -> tuple[str, ...]:
        """Return further `-cc1` arguments for this compiler; `ToolchainError` if it cannot do what the task needs."""
        del toolchain
        return ()

    def bind(self, headers: Sequence[LogHeader], observation: str) -> None:
        """Make the spaces for the header of each advisor; raise `ToolchainError` if one lacks what the task needs."""
        self.headers = tuple(headers)
        self._bind(observation)

    @abstractmethod
    def _bind(self, observation: str) -> None:
        """Set the spaces and feature names from `headers`."""

    @abstractmethod
    def observe(self, decision: Decision) -> Any:
        """Return a fresh observation of a decision, an element of `observation_space`."""

    def show(self, decision: Decision | None) -> Any:
        """Return the observation of a decision, or `final_observation()` without one."""
        return self.final_observation() if decision is None else self.observe(decision)

    def observe_batch(self, decisions: Sequence[Decision | None]) -> Any:
        """Return a fresh batch of observations, one row per decision, as `show()`."""
        batch = create_empty_array(self.observation_space, len(decisions), np.zeros)
        for row, decision in enumerate(decisions):
            _write(self.show(decision), batch, row)
        return batch

    @abstractmethod
    def final_observation(self) -> Any:
        """Return the observation of an episode that is over: there is nothing to see, so all zeros."""

    @abstractmethod
    def default_action(self, decision: Decision) -> Any:
        """Return the action that clang itself would take, as exactly as the features tell."""

    @abstractmethod
    def encode(self, decision: Decision, action: Any) -> bytes | None:
        """Return the bytes of an action as `read_action()` returns it, or None if it is illegal at this decision."""

    def default_advice(self, decision: Decision) -> bytes:
        """Return the bytes of clang's own choice."""
        return self.advice(decision, self.default_action(decision))

    def advice(self, decision: Decision, action: Any) -> bytes:
        """Return the bytes of the advice; raise `ActionError` for an illegal action."""
        advice = self.encode(decision, action)
        if advice is None:
            mask = self.action_mask(decision)
            legal = self.action_space if mask is None else mask.nonzero()[0].tolist()
            raise ActionError(
                f"expected a legal action among {legal}, got {action!r}; use action_masks(), "
                "or strict=False to let clang choose"
            )
        return advice

    @cached_property
    def masked(self) -> bool:
        """Whether some actions are illegal at some decisions."""
        return type(self).action_mask is not Task.action_mask

    def action_mask(self, decision: Decision) -> npt.NDArray[np.int8] | None:
        """Return which actions are legal, int8 of shape (number of actions,), or None where all are."""
        del decision
        return None

    def all_legal(self) -> npt.NDArray[np.int8] | None:
        """Return a mask that allows every action, int8 of shape (number of actions,); None for continuous ones."""
        space = self.action_space
        return np.ones(int(space.n), np.int8) if isinstance(space, gym.spaces.Discrete) else None

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of what can be rewarded."""
        return (*SIZE_METRICS, MAX_FRAME, *PROJECT_METRICS)

    def outcome(self, measurement: Measurement, metric: str, function: str | None = None) -> float:
        """Return the cost of a compile, or of one function where the metric can; smaller is better."""
        del function
        costs = measurement.costs()
        if metric not in costs:
            raise MlgoError(f"expected a compile that went to its end for {metric!r}, got one that was ended early")
        return float(costs[metric])

    def report(self, measurement: Measurement, baseline: Measurement, function: str | None = None) -> dict[str, Any]:
        """Return the costs in the last `info`; `function` is that of an episode of one function."""
        del function
        costs, reference = measurement.costs(), baseline.costs()
        report: dict[str, Any] = {}
        for metric in costs:
            if metric in reference:
                report |= {metric: costs[metric], f"baseline_{metric}": reference[metric]}
        if measurement.frames is not None and baseline.frames is not None:
            plain = baseline.frames
            report["grown_frames"] = sum(size > plain.get(name, size) for name, size in measurement.frames.items())
        return report


def _write(observation: Any, batch: Any, row: int) -> None:
    if isinstance(batch, dict):
        for key, part in batch.items():
            _write(observation[key], part, row)
    else:
        batch[row] = observation


class AllocationTask(Task):
    """A task whose outcome is the cost of register allocation."""

    optimization_record: ClassVar[bool] = True
    after_optimization: ClassVar[bool] = True
    has_contexts: ClassVar[bool] = True
    default_metric: ClassVar[str] = "spill_cost"
    function_metrics: ClassVar[tuple[str, ...]] = ("spill_cost",)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metric of allocation, `spill_cost`, then the sizes."""
        return (*self.function_metrics, *super().metrics)

    def outcome(self, measurement: Measurement, metric: str, function: str | None = None) -> float:
        """Return the cost of a compile; all metrics except sizes count one function alone if there is a function."""
        if metric not in self.function_metrics:
            return super().outcome(measurement, metric)
        return (
            math.fsum(measurement.allocation.values())
            if function is None
            else measurement.allocation.get(function, 0.0)
        )

    def report(self, measurement: Measurement, baseline: Measurement, function: str | None = None) -> dict[str, Any]:
        """Return the metrics except sizes for the policy and the baseline, and a row per function that has any cost."""

        def spill_costs(of: str | None) -> dict[str, Any]:
            pairs = (("", measurement), ("baseline_", baseline))
            return {f"{prefix}spill_cost": self.outcome(compiled, "spill_cost", of) for prefix, compiled in pairs}

        names = sorted({*baseline.allocation, *measurement.allocation}) if function is None else [function]
        rows = [{"function": name, **spill_costs(name)} for name in names]
        return super().report(measurement, baseline, function) | spill_costs(function) | {"functions": rows}


_LARGEST = float(np.finfo(np.float32).max)


def read_action(action: Any, space: gym.Space[Any]) -> int | float:
    """Return an action as a plain number: an int for a discrete space, a float (of float32's precision) for a `Box`.

    It does not check whether the action is legal. An array or tensor of one element is a number, as batches leave it.

    Raises:
        ActionError: the action is not one number, it is NaN, or it is not a whole number for a discrete space.
    """
    value = action.item() if type(action) is np.ndarray and action.dtype == np.float32 and action.size == 1 else action
    if not isinstance(value, (int, float, np.generic)):
        try:
            array = np.asarray(value)
        except (TypeError, ValueError, RuntimeError):
            raise _refusal(action, space) from None
        if array.size != 1:
            raise _refusal(action, space)
        value = array.reshape(-1)[0]
    if not isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
        raise _refusal(action, space)
    if isinstance(space, gym.spaces.Discrete):
        if isinstance(value, (float, np.floating)) and not float(value).is_integer():
            raise _refusal(action, space)
        return int(value)
    try:
        number = float(value)
    except OverflowError:  # an integer of any size
        number = math.inf if value > 0 else -math.inf
    if math.isnan(number):
        raise ActionError(f"expected an action, an element of {space}, got NaN; the policy has diverged")
    # No action is larger, and NumPy would warn.
    return np.float32(number).item() if abs(number) <= _LARGEST else math.copysign(math.inf, number)


def _refusal(action: Any, space: gym.Space[Any]) -> ActionError:
    return ActionError(
        f"expected an action, an element of {space}, got {action!r}, a {type(action).__name__}; pass one number"
    )
