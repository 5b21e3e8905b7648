"""What a compile is to answer, by the place of each decision, so that a change in one function leaves others alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mlgo_gym.episode.placed_compile import PlacedCompile, PlacedDecision
from mlgo_gym.llvm.training_log import LogHeader
from mlgo_gym.session.decision import Decision

_AHEAD = 24
"""How far calls are looked for that an inlined body no longer brings."""

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
    """Recognises a call by its features when its number has changed.

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
        changes: those that are to be answered otherwise, and how.
        fingerprints: recognises calls.
        adapt: whether clang decides anew where it decided by itself.
    """

    def __init__(
        self,
        visits: Mapping[tuple[str, int], Sequence[PlacedDecision]],
        changes: Iterable[tuple[Site, int]],
        fingerprints: Fingerprints,
        *,
        adapt: bool = False,
    ) -> None:
        self._visits = visits
        self._changes = dict(changes)
        self._fingerprints = fingerprints
        self._adapt = adapt
        self._next: dict[tuple[str, int], int] = {}

    def answer(self, decision: Decision) -> int | None:
        """Return the answer to the next question of the compile; None where the plan does not know the call.

        Calls are followed in order within each visit: those that are gone are passed over, those that are new are
        not known.
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
        changed = self._changes.get(Site(*key, index))
        if changed is not None:
            return changed
        before = known[index]
        return None if self._adapt and before.answer == before.default else before.answer


class Expectation:
    """What a compile without further changes is expected to be: a real one, and parts of others that were better.

    Attributes:
        visits: the decisions, by component and visit.
        sizes: the bytes of each function.
        text: the bytes of the executable sections.
    """

    def __init__(self, compiled: PlacedCompile) -> None:
        self.visits: dict[tuple[str, int], list[PlacedDecision]] = dict(compiled.visits)
        self.sizes: dict[str, int] = dict(compiled.functions.functions)
        self.text = compiled.text

    @property
    def decisions(self) -> list[PlacedDecision]:
        """All decisions."""
        return [decision for visit in self.visits.values() for decision in visit]

    def take_over(self, compiled: PlacedCompile, functions: Iterable[str], components: Iterable[str]) -> None:
        """Expect what another compile has in some functions.

        Args:
            compiled: the other compile.
            functions: whose bytes to expect.
            components: whose decisions to repeat.
        """
        for function in functions:
            size = compiled.functions.functions.get(function, 0)
            self.text += size - self.sizes.pop(function, 0)
            if size:
                self.sizes[function] = size
        wanted = set(components)
        self.visits = {key: visit for key, visit in self.visits.items() if key[0] not in wanted}
        self.visits |= {key: visit for key, visit in compiled.visits.items() if key[0] in wanted}
