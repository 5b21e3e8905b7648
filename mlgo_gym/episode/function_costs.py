"""The cost of a compile by the metric of an environment, split among the functions of the module."""

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.attribution.credit import CostChanges
from mlgo_gym.episode.attribution.inline_compile import InlineCompile
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.sizes import FunctionSizes, object_sizes, size_changes
from mlgo_gym.tasks.measurement import MAX_FRAME, PROJECT_METRICS, SIZE_METRICS, WEIGHTED, relative

TEXT = "text"

_PARTS = 1_000_000_000
"""Unit of costs with weights: parts of the baseline."""


class CompileCost(NamedTuple):
    """The cost of a compile by the environment's metric.

    `functions` has the cost of each function in place of its bytes, and of all in place of `text`, as integers: bytes,
    instructions, or with weights billionths of the baseline.
    """

    cost: float
    functions: FunctionSizes


class FunctionCosts:
    """Splits the costs of compiles of one module among their functions.

    Executed instructions and linked bytes are also those of functions outside the module, such as `strlen`.

    Attributes:
        baseline: Cost of a plain compile; `CompilerError` if it fails.
        counts_calls: Whether the cost of a function depends on how often it is called.
    """

    def __init__(self, setup: Setup, compilation: Compilation) -> None:
        self._setup = setup
        self._costs = setup.project_costs
        self._weights = setup.weights
        self.counts_calls = any(cost.counts_calls for cost in self._costs.values())
        self._module = compilation.module.name
        measured = measure_baseline(compilation, setup.timeout)
        project = {metric: cost.functions(self._module).text for metric, cost in self._costs.items()}
        measured = replace(measured, project=project)
        self._totals = {metric: setup.task.outcome(measured, metric) for metric in self._weights}
        self._is_weighted = setup.metric == WEIGHTED
        self.baseline = 1.0 if self._is_weighted else self._totals[setup.metric]

    def of(self, compiled: InlineCompile) -> CompileCost:
        """Return the cost of a compile of the module; raise `MlgoError` if a metric is no sum over functions."""
        by_metric = {metric: self._functions(metric, compiled) for metric in self._weights}
        if not self._is_weighted:
            functions = by_metric[self._setup.metric]
            return CompileCost(functions.text, functions)
        costs: Counter[str] = Counter()
        saved = 0.0
        for metric, weight in self._weights.items():
            functions, total = by_metric[metric], self._totals[metric]
            share = _PARTS * weight / max(total, 1.0)
            costs.update({name: round(value * share) for name, value in functions.functions.items()})
            saved += weight * relative(functions.text, total)
        total_parts = round(_PARTS * (sum(self._weights.values()) - saved))
        return CompileCost(1.0 - saved, FunctionSizes(costs, compiled.functions.aliases, 0, total_parts))

    def changes(self, before: InlineCompile, after: InlineCompile) -> CostChanges:
        """Return the changes of the cost between two compiles of the module, with weights in parts of the baseline."""
        first, second = self.of(before).functions, self.of(after).functions
        unit = 1 / _PARTS if self._is_weighted else 1.0
        growth = {name: change * unit for name, change in size_changes(first, second).items()}
        costs = {name: cost * unit for name, cost in first.functions.items()}
        return CostChanges(growth, (second.text - first.text) * unit, costs, self.counts_calls)

    def _functions(self, metric: str, compiled: InlineCompile) -> FunctionSizes:
        if metric == TEXT:
            return compiled.functions
        if metric in SIZE_METRICS:
            # Bytes beside the instructions, such as unwind tables, belong to no function.
            size, functions = getattr(object_sizes(compiled.object_bytes), metric), compiled.functions
            return functions._replace(unnamed=functions.unnamed + size - functions.text, text=size)
        if metric == MAX_FRAME and compiled.frames is not None:
            # The largest frame is no sum, but a part with smaller frames is the better one.
            largest = max(compiled.frames.values(), default=0)
            return FunctionSizes(compiled.frames, {}, largest - sum(compiled.frames.values()), largest)
        if metric not in self._costs:
            known = ", ".join((*SIZE_METRICS, MAX_FRAME, *PROJECT_METRICS))
            raise MlgoError(f"expected metrics that functions share, {known}, got {metric!r}; choose another metric")
        return self._costs[metric].functions(self._module, compiled.object_bytes)
