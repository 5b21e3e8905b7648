"""The compile that a search expects: the best parts of several compiles, told apart by their functions."""

from __future__ import annotations

from collections.abc import Iterable

from mlgo_gym.compiler.protocol.decision import functions_of
from mlgo_gym.episode.attribution.affected_functions import causes_of_changes
from mlgo_gym.episode.attribution.flips import group_causes
from mlgo_gym.episode.attribution.inline_compile import InlineDecision, differing, with_counterpart
from mlgo_gym.llvm.function_sizes import FunctionSizes, size_changes
from mlgo_gym.search.flip_plan import Trial


class ExpectedCompile:
    """A compile, with the better parts of other compiles.

    Args:
        trial: The compile to start from.
        counts_calls: Whether the cost of a function depends on how often it is called.

    Attributes:
        visits: The decisions by context and visit.
        overrides: Sites whose answer is not that of the policy.
        sizes: Bytes of each function.
        costs: Cost of each function, by the metric of the search.
        total: Cost of the compile.
    """

    def __init__(self, trial: Trial, *, counts_calls: bool = False) -> None:
        self._counts_calls = counts_calls
        compiled, overrides, costs, _ = trial
        self.visits: dict[tuple[str, int], list[InlineDecision]] = dict(compiled.visits)
        self.overrides = set(overrides)
        self.sizes: dict[str, int] = dict(compiled.functions.functions)
        self.costs: dict[str, int] = dict(costs.functions)
        self.total = costs.text

    @property
    def decisions(self) -> list[InlineDecision]:
        """All decisions."""
        return [decision for visit in self.visits.values() for decision in visit]

    def growth(self, trial: Trial) -> dict[str, int]:
        """Return by how much each function of a compile costs more than in this one; unchanged functions are absent."""
        return size_changes(FunctionSizes(self.costs, {}, 0, self.total), trial.costs)

    def replace(self, trial: Trial, functions: Iterable[str], contexts: Iterable[str] = ()) -> None:
        """Replace the costs of some functions and the decisions of some contexts by those of another compile."""
        compiled = trial.compiled
        for function in functions:
            _replace(self.sizes, compiled.functions, function)
            self.total += _replace(self.costs, trial.costs, function)
        chosen = set(contexts)
        self.visits = {key: visit for key, visit in self.visits.items() if key[0] not in chosen}
        self.visits |= {key: visit for key, visit in compiled.visits.items() if key[0] in chosen}
        self.overrides = {site for site in self.overrides if site.context not in chosen}
        self.overrides |= {site for site in trial.overrides if site.context in chosen}

    def contexts_of(self, trial: Trial, decisions: Iterable[InlineDecision], functions: Iterable[str]) -> set[str]:
        """Return the contexts of some decisions or functions, in this compile or another."""
        contexts, names = {decision.context for decision in decisions}, set(functions)
        return {
            context
            for context, _ in trial.compiled.visits.keys() | self.visits.keys()
            if context in contexts or not names.isdisjoint(functions_of(context))
        }

    def replace_worse_parts(self, trial: Trial) -> None:
        """Replace the parts that cost less in another compile.

        The differing decisions form groups that share no changed function. The cost of a group is the cost of its
        functions.
        """
        decisions = trial.compiled.decisions
        growth = self.growth(trial)
        causes = differing(self.decisions, decisions)
        pairs = [with_counterpart(self.visits, decisions[index]) for index in causes]
        found = causes_of_changes(self.decisions, decisions, growth, pairs, self.sizes, counts_calls=self._counts_calls)
        for group, functions in group_causes(len(causes), found):
            if sum(growth[function] for function in functions) < 0:
                flipped = [decisions[causes[cause]] for cause in group]
                self.replace(trial, functions, self.contexts_of(trial, flipped, functions))


def _replace(mine: dict[str, int], other: FunctionSizes, function: str) -> int:
    """Replace the value of a function by that of another compile; return the growth."""
    value = other.functions.get(function, 0)
    growth = value - mine.pop(function, 0)
    if value:
        mine[function] = value
    return growth


def override_all(trial: Trial) -> Trial:
    """Return a compile whose answers are all kept under another policy."""
    return trial._replace(overrides=frozenset(decision.site for decision in trial.compiled.decisions))
