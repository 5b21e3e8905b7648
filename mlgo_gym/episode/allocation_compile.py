"""A compile with the evictions of each function, and the price of each function.

Registers are allocated function by function, so that no function's code depends on the decisions in another one.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.setup import Setup
from mlgo_gym.llvm.advisors import EVICTION
from mlgo_gym.tasks.measurement import Measurement
from mlgo_gym.tasks.task import Task


class Eviction(NamedTuple):
    """An answered decision of the eviction advisor: its column, and the legal columns."""

    decision: Decision
    answer: int
    legal: tuple[int, ...]


class AllocationCompile(NamedTuple):
    """A finished compile.

    Attributes:
        functions: Decisions of each function, in clang's order.
        costs: Cost of each function, by the environment's metric.
        cost, measurement: Cost of the module, and everything that was measured.
    """

    functions: Mapping[str, list[Eviction]]
    costs: Mapping[str, float]
    cost: float
    measurement: Measurement

    @property
    def actions(self) -> tuple[int, ...]:
        """The answer to each decision of the compile."""
        return tuple(eviction.answer for evictions in self.functions.values() for eviction in evictions)

    def change(self, function: str, other: AllocationCompile) -> float:
        """Return the cost increase of the module when this function is taken from the other compile."""
        return other.costs.get(function, 0.0) - self.costs.get(function, 0.0)


def legal_answer(task: Task, decision: Decision, action: Any) -> int:
    """Return an action, or clang's own choice in place of an illegal one."""
    return int(task.default_action(decision) if task.encode(decision, action) is None else action)


def can_split(setup: Setup) -> bool:
    """Return whether the environment decides evictions, and its metric is a sum over functions."""
    return setup.task.advisors == (EVICTION,) and setup.metric in setup.task.function_metrics


def run_allocation_compile(
    setup: Setup, compilation: Compilation, choose: Callable[[Decision, int], int]
) -> AllocationCompile:
    """Compile a module, and record the evictions and the price of each function.

    `choose` returns a legal column, given a decision and the number of decisions before it. The setup `can_split()`.
    Raises `CompilerError` if the compile fails, and `ActionError` for an illegal column.
    """
    task, metric = setup.task, setup.metric
    functions: dict[str, list[Eviction]] = defaultdict(list)
    numbers = itertools.count()

    def advise(decision: Decision) -> bytes:
        mask, answer = task.action_mask(decision), choose(decision, next(numbers))
        legal = () if mask is None else tuple(mask.nonzero()[0].tolist())
        functions[decision.context].append(Eviction(decision, int(answer), legal))
        return task.advice(decision, answer)

    with compilation.session(task.advisors, optimization_record=task.optimization_record) as session:
        measurement = Measurement.of(drive(session, advise, setup.timeout))
    costs = {name: task.outcome(measurement, metric, name) for name in measurement.allocation}
    return AllocationCompile(functions, costs, task.outcome(measurement, metric), measurement)
