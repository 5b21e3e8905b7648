"""What a compile is to answer, by the place of each decision, so that a change in one function leaves others alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mlgo_gym.episode.placed_compile import PlacedCompile, PlacedDecision
from mlgo_gym.llvm.training_log import LogHeader
from mlgo_gym.session.decision import Decision

_AHEAD = 24
"""How far ahead a call is looked for when those in between, from inlined bodies, are gone."""

_OF_THE_CALL = ("callee_basic_block_count", "nr_ctant_params", "cost_estimate", "callee_conditionally_executed_blocks")
"""The features that tell one call from the next as long as the callee stays as it is (MLInlineAdvisor's)."""


class Site(NamedTuple):
    """A decision of the best compile so far.

    Attributes:
        component: the functions that the inliner is at.
        visit: how often it was there before.
        place: the number of the decision within the visit.
    """

    component: str
    visit: int
    place: int


class Fingerprints:
    """Recognises a call by its features if its number has changed.

    Args:
        header: the header of the inlining advisor.
    """

    def __init__(self, header: LogHeader) -> None:
        self._dtype = header.dtype
        names = {spec.name for spec in header.features}
        self._names = [name for name in _OF_THE_CALL if name in names]

    def of(self, payload: bytes) -> tuple[int, ...]:
        """Return what tells a call from its neighbours."""
        record = np.frombuffer(payload, self._dtype)[0]
        return tuple(int(record[name][0]) for name in self._names)


class Plan:
    """The answers of a compile, with some of them changed.

    Args:
        visits: the decisions to repeat, by component and visit.
        kept: those of them that keep their answer whatever else changes; a rule answers the others anew.
        changes: the decisions to answer differently, and how.
        fingerprints: recognises calls.
        pinned: whether all known decisions keep their answers.
    """

    def __init__(
        self,
        visits: Mapping[tuple[str, int], Sequence[PlacedDecision]],
        kept: Collection[Site],
        changes: Iterable[tuple[Site, int]],
        fingerprints: Fingerprints,
        *,
        pinned: bool = False,
    ) -> None:
        self._visits = visits
        self._kept = kept
        self._changes = dict(changes)
        self._fingerprints = fingerprints
        self._pinned = pinned
        self._next: dict[tuple[str, int], int] = {}

    def answer(self, decision: Decision) -> int | None:
        """Return the answer to the next question of the compile; None where the plan leaves it to the rule.

        Calls are followed in order within each visit: those that are gone are passed over, new ones are unknown.
        """
        key = decision.context, decision.visit
        known = self._visits.get(key)
        if known is None:
            return None
        start = self._next.get(key, 0)
        wanted = self._fingerprints.of(decision.payload)
        for index in range(start, min(start + _AHEAD, len(known))):
            if self._fingerprints.of(known[index].payload) == wanted:
                break
        else:
            # The callee may have changed, and the call be the same.
            index = start
            if index >= len(known) or index != decision.number:
                return None
        self._next[key] = index + 1
        site = Site(*key, index)
        changed = self._changes.get(site)
        if changed is not None:
            return changed
        return known[index].answer if self._pinned or site in self._kept else None


class Trial(NamedTuple):
    """A compile by a plan.

    Attributes:
        compiled: the compile.
        kept: the decisions that were answered otherwise than the rule would have.
    """

    compiled: PlacedCompile
    kept: frozenset[Site]
