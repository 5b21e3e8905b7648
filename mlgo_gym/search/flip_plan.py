"""Repeats the decisions of a compile with some of them flipped, by the site of each decision."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from mlgo_gym.compiler.protocol.decision import Decision, DecisionSite
from mlgo_gym.episode.attribution.inline_compile import InlineCompile, Visits
from mlgo_gym.llvm.function_sizes import FunctionSizes

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
        self._visits = visits
        self._overrides = overrides
        self._changes = dict(changes)
        self._dtype = dtype
        self._features = [name for name in _CALL_FEATURES if name in (dtype.names or ())]
        self._pinned = pinned
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
        changed = self._changes.get(site)
        if changed is not None:
            return changed
        return recorded[index].answer if self._pinned or site in self._overrides else None

    def _fingerprint(self, payload: bytes) -> tuple[int, ...]:
        """Return the features that identify a call whose index has changed."""
        record = np.frombuffer(payload, self._dtype)[0]
        return tuple(int(record[name][0]) for name in self._features)


class Trial(NamedTuple):
    """A compile of the search.

    Attributes:
        compiled: The compile.
        overrides: Sites whose answer is not that of the compile's policy.
        costs: The cost of each function in place of its bytes, and their sum in place of `text`; with the metric `text`
            those of `compiled`.
        cost: Cost of the compile, by the environment's metric.
    """

    compiled: InlineCompile
    overrides: frozenset[DecisionSite]
    costs: FunctionSizes
    cost: float

    @property
    def total(self) -> int:
        """The sum of `costs`."""
        return self.costs.text
