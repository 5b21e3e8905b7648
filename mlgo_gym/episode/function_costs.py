"""The cost of a compile, and of each of its functions, by the metrics that can be split among functions."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from mlgo_gym.attribution.inline_compile import InlineCompile
from mlgo_gym.corpus.commands.compilation import Compilation
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.function_sizes import FunctionSizes
from mlgo_gym.tasks.measurement import INSTRUCTIONS
from mlgo_gym.tasks.reward import relative

TEXT = "text"

_PARTS = 1_000_000_000
"""Unit of costs with weights: parts of the baseline."""


class CompileCost(NamedTuple):
    """The cost of a compile.

    Attributes:
        cost: Cost by the environment's metric.
        functions: Cost of each function in place of its bytes, and of all in place of `text`, as integers: bytes,
            instructions, or with weights billionths of the baseline.
    """

    cost: float
    functions: FunctionSizes


class FunctionCosts:
    """Splits the costs of compiles of one module among their functions.

    Instructions are also those of functions outside the module, such as `strlen`, which inlining can make superfluous.

    Args:
        setup: Setup of the environment.
        compilation: The compile.

    Attributes:
        baseline: Cost of a plain compile.
        counts_calls: Whether the cost of a function depends on how often it is called.

    Raises:
        MlgoError: A metric has no value for each function, or no counter counts functions.
        CompilerError: The plain compile or its program fails.
    """

    def __init__(self, setup: Setup, compilation: Compilation) -> None:
        if not setup.weights.keys() <= {TEXT, INSTRUCTIONS}:
            raise MlgoError(
                f"expected metric={TEXT!r}, {INSTRUCTIONS!r} or weights of the two, which functions share, got "
                f"{setup.options.metric!r}; choose another metric"
            )
        self._programs = setup.programs
        self._weights = setup.weights
        self.counts_calls = INSTRUCTIONS in self._weights
        self._module = compilation.module.name
        measured = measure_baseline(compilation, setup.timeout)
        self._totals = {TEXT: setup.task.outcome(measured, TEXT)}
        if self._programs is not None:
            self._totals[INSTRUCTIONS] = self._programs.count(self._module, by_function=True).total
        self.baseline = 1.0 if len(self._weights) > 1 else float(self._totals[setup.metric])

    def of(self, compiled: InlineCompile) -> CompileCost:
        """Return the cost of a compile of the module.

        Raises:
            CompilerError: Its program fails.
        """
        by_metric = {TEXT: compiled.functions}
        if self._programs is not None:
            by_metric[INSTRUCTIONS] = self._count(compiled)
        if len(self._weights) == 1:
            ((metric, _),) = self._weights.items()
            return CompileCost(float(by_metric[metric].text), by_metric[metric])
        costs: Counter[str] = Counter()
        saved = 0.0
        for metric, weight in self._weights.items():
            unit = _PARTS * weight / self._totals[metric]
            costs.update({name: round(value * unit) for name, value in by_metric[metric].functions.items()})
            saved += weight * relative(by_metric[metric].text, self._totals[metric])
        total = round(_PARTS * (sum(self._weights.values()) - saved))
        return CompileCost(1.0 - saved, FunctionSizes(costs, compiled.functions.aliases, 0, total))

    def _count(self, compiled: InlineCompile) -> FunctionSizes:
        assert self._programs is not None
        counts: Counter[str] = Counter()
        executed = self._programs.count(self._module, compiled.object_bytes, by_function=True)
        for symbol, count in executed.functions.items():
            counts[compiled.functions.name(symbol) or symbol] += count
        return FunctionSizes(counts, compiled.functions.aliases, 0, executed.total)
