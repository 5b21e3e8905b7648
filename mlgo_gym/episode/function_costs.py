"""The cost of a compile, and of each of its functions, by the metrics that can be split among functions."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.attribution.credit import CostChanges
from mlgo_gym.episode.attribution.inline_compile import InlineCompile
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.function_sizes import FunctionSizes, size_changes
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.tasks.measurement import PROJECT_METRICS, SIZE_METRICS, STACK

TEXT = "text"


class CompileCost(NamedTuple):
    """The cost of a compile.

    Attributes:
        cost: Cost by the environment's metric.
        functions: Cost of each function in place of its bytes, and of all in place of `text`, as integers: bytes,
            instructions, or thousandths of an estimated byte.
    """

    cost: float
    functions: FunctionSizes


class FunctionCosts:
    """Splits the costs of compiles of one module among their functions.

    Executed instructions and linked bytes are also those of functions outside the module, such as `strlen`.

    Attributes:
        baseline: Cost of a plain compile; `CompilerError` if it fails.
        counts_calls: Whether the cost of a function depends on how often it is called.
        unit: Number by which `CompileCost.functions` multiplies the metric.
    """

    def __init__(self, setup: Setup, compilation: Compilation) -> None:
        self._metric, self._project_cost = setup.metric, setup.project_cost
        self._module = compilation.module.name
        measured = measure_baseline(compilation, setup.timeout)
        self.counts_calls, self.unit = False, 1
        if (project_cost := self._project_cost) is not None:
            self.counts_calls, self.unit = project_cost.counts_calls, project_cost.unit
            project = {self._metric: project_cost.functions(self._module).text / self.unit}
            measured = replace(measured, project=project)
        self.baseline = setup.task.outcome(measured, self._metric)

    def of(self, compiled: InlineCompile) -> CompileCost:
        """Return the cost of a compile of the module; raise `MlgoError` if the metric is no sum over functions."""
        functions = self._functions(compiled)
        return CompileCost(functions.text / self.unit, functions)

    def changes(self, before: InlineCompile, after: InlineCompile) -> CostChanges:
        """Return the changes of the cost between two compiles of the module."""
        first, second = self._functions(before), self._functions(after)
        functions = {name: change / self.unit for name, change in size_changes(first, second).items()}
        costs = {name: cost / self.unit for name, cost in first.functions.items()}
        return CostChanges(functions, (second.text - first.text) / self.unit, self.counts_calls, costs)

    def _functions(self, compiled: InlineCompile) -> FunctionSizes:
        metric, functions = self._metric, compiled.functions
        if self._project_cost is not None:
            return self._project_cost.functions(self._module, compiled.object_bytes)
        if metric == TEXT:
            return functions
        if metric in SIZE_METRICS:
            # Bytes beside the instructions, such as unwind tables, belong to no function.
            size = getattr(object_sizes(compiled.object_bytes), metric)
            return replace(functions, unnamed=functions.unnamed + size - functions.text, text=size)
        if metric == STACK and compiled.frames is not None:
            # The largest frame is no sum, but a part with smaller frames is the better one.
            largest = max(compiled.frames.values(), default=0)
            return FunctionSizes(compiled.frames, {}, largest - sum(compiled.frames.values()), largest)
        known = ", ".join((*SIZE_METRICS, STACK, *PROJECT_METRICS))
        raise MlgoError(f"expected metrics that functions share, {known}, got {metric!r}; choose another metric")
