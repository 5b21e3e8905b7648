"""The compile that a search by bundles expects: its decisions with flips, and the best parts of several compiles."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from mlgo_gym.compiler.decision import Decision, DecisionSite, functions_of
from mlgo_gym.episode.attribution.affected_functions import causes_of_changes, group_causes
from mlgo_gym.episode.attribution.inline_compile import (
    InlineCompile,
    InlineDecision,
    Visits,
    differing,
    with_counterpart,
)
from mlgo_gym.llvm.sizes import FunctionSizes, size_changes

# Number of recorded decisions to search for a call; those in between come from bodies that are not inlined now.
_LOOK_AHEAD = 24

# Features that distinguish the calls of a function as long as their callees are unchanged.
_CALL_FEATURES = (
    "callee_basic_block_count",
    "nr_ctant_params",
    "cost_estimate",
    "callee_conditionally_executed_blocks",
)


class FlipPlan:
    """Repeats recorded decisions, and flips some of them.

    Args:
        visits: The recorded decisions by context and visit.
        overrides: Sites of recorded answers that the policy of the compile would not give; they are always repeated.
        changes: Sites to answer differently, each with its answer.
        dtype: Type of an observation, from the header of the advisor.
        pinned: Whether to repeat all recorded answers; by default the policy decides where nothing overrides it.
    """

    def __init__(
        self,
        visits: Visits,
        overrides: Collection[DecisionSite],
        changes: Iterable[tuple[DecisionSite, int]],
        dtype: np.dtype[Any],
        *,
        pinned: bool = False,
    ) -> None:
        self._visits, self._overrides, self._changes, self._pinned = visits, overrides, dict(changes), pinned
        self._dtype = dtype
        self._features = [name for name in _CALL_FEATURES if name in (dtype.names or ())]
        self._next: dict[tuple[str, int], int] = {}

    def answer(self, decision: Decision) -> int | None:
        """Return the answer to the next decision of the compile; None leaves it to the policy.

        Calls are matched in order within each visit. Recorded calls that do not occur are skipped; a new call is left
        to the policy.
        """
        visit = decision.site[:2]
        recorded = self._visits.get(visit)
        if recorded is None:
            return None
        start = self._next.get(visit, 0)
        fingerprint = self._fingerprint(decision.payload)
        for index in range(start, min(start + _LOOK_AHEAD, len(recorded))):
            if self._fingerprint(recorded[index].payload) == fingerprint:
                break
        else:
            # The same call has another fingerprint if its callee changed.
            index = start
            if index >= len(recorded) or index != decision.site.index:
                return None
        self._next[visit] = index + 1
        site = DecisionSite(*visit, index)
        if site in self._changes:
            return self._changes[site]
        return recorded[index].answer if self._pinned or site in self._overrides else None

    def _fingerprint(self, payload: bytes) -> tuple[int, ...]:
        """Return the features that identify a call whose index has changed."""
        record = np.frombuffer(payload, self._dtype)[0]
        return tuple(int(record[name][0]) for name in self._features)


class Trial(NamedTuple):
    """A compile of the search, with its cost by the environment's metric.

    The `overrides` are sites whose answer is not that of the compile's policy. The `costs` are those of each function
    in place of its bytes, and their sum in place of `text`.
    """

    compiled: InlineCompile
    overrides: frozenset[DecisionSite]
    costs: FunctionSizes
    cost: float

    @property
    def total(self) -> int:
        """The sum of `costs`."""
        return self.costs.text

    def override_all(self) -> Trial:
        """Return the same compile with all answers kept under another policy."""
        return self._replace(overrides=frozenset(decision.site for decision in self.compiled.decisions))


class ExpectedCompile:
    """A compile, with the better parts of other compiles.

    Attributes:
        visits: The decisions by context and visit.
        overrides: Sites whose answer is not that of the policy.
        sizes: Bytes of each function.
        costs: Cost of each function, by the metric of the search.
        total: Cost of the compile.
    """

    def __init__(self, trial: Trial, *, counts_calls: bool = False) -> None:
        self._counts_calls = counts_calls
        self.visits: dict[tuple[str, int], list[InlineDecision]] = dict(trial.compiled.visits)
        self.overrides = set(trial.overrides)
        self.sizes: dict[str, int] = dict(trial.compiled.functions.functions)
        self.costs: dict[str, int] = dict(trial.costs.functions)
        self.total = trial.total

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
        replaced = set(contexts)
        self.visits = {key: visit for key, visit in self.visits.items() if key[0] not in replaced}
        self.visits |= {key: visit for key, visit in compiled.visits.items() if key[0] in replaced}
        self.overrides = {site for site in self.overrides if site.context not in replaced}
        self.overrides |= {site for site in trial.overrides if site.context in replaced}

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
        decisions, growth = trial.compiled.decisions, self.growth(trial)
        flipped = differing(self.decisions, decisions)
        pairs = [with_counterpart(self.visits, decisions[index]) for index in flipped]
        causes = causes_of_changes(
            self.decisions, decisions, growth, pairs, self.sizes, counts_calls=self._counts_calls
        )
        for group, functions in group_causes(len(flipped), causes):
            if sum(growth[function] for function in functions) < 0:
                replaced = [decisions[flipped[cause]] for cause in group]
                self.replace(trial, functions, self.contexts_of(trial, replaced, functions))


def _replace(values: dict[str, int], other: FunctionSizes, function: str) -> int:
    """Replace the value of a function by that of another compile; return the growth."""
    value = other.functions.get(function, 0)
    growth = value - values.pop(function, 0)
    if value:
        values[function] = value
    return growth
