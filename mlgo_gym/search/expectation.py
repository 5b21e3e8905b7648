"""What the next compile is expected to be: the best parts of several, as far as functions tell them apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mlgo_gym.episode.inline_reach import explain
from mlgo_gym.episode.many_flips import groups
from mlgo_gym.episode.placed_compile import PlacedDecision
from mlgo_gym.llvm.function_sizes import FunctionSizes, size_changes
from mlgo_gym.search.plan import Site, Trial


class Expectation:
    """What a compile without further changes is expected to be: a real one, with the better parts of others.

    Args:
        trial: the real one.

    Attributes:
        visits: the decisions, by component and visit.
        kept: those that were answered otherwise than the rule would have.
        sizes: the bytes of each function.
        text: the bytes of the executable sections.
    """

    def __init__(self, trial: Trial) -> None:
        compiled, kept = trial
        self.visits: dict[tuple[str, int], list[PlacedDecision]] = dict(compiled.visits)
        self.kept = set(kept)
        self.sizes: dict[str, int] = dict(compiled.functions.functions)
        self.text = compiled.text

    @property
    def decisions(self) -> list[PlacedDecision]:
        """All decisions."""
        return [decision for visit in self.visits.values() for decision in visit]

    def growth(self, trial: Trial) -> dict[str, int]:
        """Return by how many bytes each function of a compile is larger than expected, leaving out zeros."""
        return size_changes(FunctionSizes(self.sizes, {}, 0, self.text), trial.compiled.functions)

    def take_over(self, trial: Trial, functions: Iterable[str], components: Iterable[str]) -> None:
        """Expect what another compile has in some functions.

        Args:
            trial: the other compile.
            functions: whose bytes to expect.
            components: whose decisions to repeat.
        """
        compiled = trial.compiled
        for function in functions:
            size = compiled.functions.functions.get(function, 0)
            self.text += size - self.sizes.pop(function, 0)
            if size:
                self.sizes[function] = size
        wanted = set(components)
        self.visits = {key: visit for key, visit in self.visits.items() if key[0] not in wanted}
        self.visits |= {key: visit for key, visit in compiled.visits.items() if key[0] in wanted}
        self.kept = {site for site in self.kept if site.component not in wanted}
        self.kept |= {site for site in trial.kept if site.component in wanted}

    def touched(self, trial: Trial, decisions: Iterable[PlacedDecision], functions: Iterable[str]) -> set[str]:
        """Return the components that some decisions stand in, or that hold some functions."""
        components, changed = {decision.component for decision in decisions}, set(functions)
        return {
            component
            for component, _ in trial.compiled.visits.keys() | self.visits.keys()
            if component in components or not changed.isdisjoint(component.split(", "))
        }

    def take_better(self, trial: Trial) -> None:
        """Take over the parts of another compile that are smaller.

        The decisions in which the two differ fall into groups that share no function of different size; the bytes of
        each group are known from its functions.
        """
        decisions = trial.compiled.decisions
        grown = self.growth(trial)
        causes = self._differing(decisions)
        explained = explain(
            self.decisions, decisions, grown, [self._both(decisions[cause]) for cause in causes], self.sizes
        )
        for group, functions in groups(len(causes), explained):
            if sum(grown[function] for function in functions) < 0:
                made = [decisions[causes[number]] for number in group]
                self.take_over(trial, functions, self.touched(trial, made, functions))

    def _differing(self, decisions: Sequence[PlacedDecision]) -> list[int]:
        known = {(*decision[:3], decision.callee): decision.answer for decision in self.decisions}
        return [
            number
            for number, decision in enumerate(decisions)
            if decision.answer != known.get((*decision[:3], decision.callee), decision.default)
        ]

    def _both(self, decision: PlacedDecision) -> list[PlacedDecision]:
        before = self.visits.get(decision[:2], [])
        return [decision, *before[decision.position : decision.position + 1]]


def everything_kept(trial: Trial) -> Trial:
    """Return a compile whose decisions keep their answers, whatever the rule of another would be."""
    return Trial(trial.compiled, frozenset(Site(*decision[:3]) for decision in trial.compiled.decisions))
