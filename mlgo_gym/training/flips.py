"""Many flips in one compile: which of them do not disturb each other, and which one a function's bytes are due to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mlgo_gym.episode.placed_compile import PlacedDecision

_INLINED_STEPS = 3
_CALLER_STEPS = 6
_CALLEE_STEPS = 3
_FEW_CALLERS = 3
_MOST_FUNCTIONS = 400
"""A walk over the call graph ends at this distance: nothing further away can be attributed to a flip."""

_ALLOWED_BYTES = 64
_ALLOWED_SHARE = 0.25

Flip = TypeVar("Flip", bound=Hashable)


class CallGraph:
    """Who calls whom, as far as decisions tell.

    Args:
        decisions: all decisions of a compile.
    """

    def __init__(self, decisions: Iterable[PlacedDecision]) -> None:
        self._callers: dict[str, set[str]] = defaultdict(set)
        self._callees: dict[str, set[str]] = defaultdict(set)
        self._inlined_into: dict[str, set[str]] = defaultdict(set)
        for decision in decisions:
            functions = decision.functions
            self._callers[decision.callee].update(functions)
            for function in functions:
                self._callees[function].add(decision.callee)
            if decision.answer:
                self._inlined_into[decision.callee].update(functions)
        self._territories: dict[tuple[str, str], frozenset[str]] = {}

    def territory(self, decision: PlacedDecision) -> frozenset[str]:
        """Return the functions that a flip may change, and those whose own flips could be confused with it.

        They are the functions that the call stands in, those that these are inlined into, their callers, the callee,
        and callees of both that few others call: these can lose their last call.
        """
        key = decision.component, decision.callee
        found = self._territories.get(key)
        if found is None:
            functions = decision.functions
            reached = set(_reach(functions, self._inlined_into, _INLINED_STEPS)) | {decision.callee}
            for function in functions:
                reached |= self._callers.get(function, set())
            for function in (*functions, decision.callee):
                reached.update(
                    callee
                    for callee in self._callees.get(function, ())
                    if len(self._callers.get(callee, ())) <= _FEW_CALLERS
                )
            found = self._territories[key] = frozenset(reached)
        return found

    def influence(self, decision: PlacedDecision) -> dict[str, int]:
        """Return the functions that a flip can have changed, each with a distance; 0 is where the call stands."""
        functions = decision.functions
        found = _reach(functions, self._callers, _CALLER_STEPS)
        for function, steps in _reach((*functions, decision.callee), self._callees, _CALLEE_STEPS).items():
            if function not in found or steps < found[function]:
                found[function] = 0 if function in functions else max(steps, 1)
        return found


def _reach(starts: Sequence[str], edges: Mapping[str, set[str]], most: int) -> dict[str, int]:
    found = dict.fromkeys(starts, 0)
    front = list(starts)
    for step in range(1, most + 1):
        following = []
        for function in front:
            for reached in edges.get(function, ()):
                if reached not in found:
                    found[reached] = step
                    following.append(reached)
        front = following
        if len(found) > _MOST_FUNCTIONS:
            break
    return found


@dataclass(frozen=True, slots=True)
class Attribution:
    """The effects found for the flips of one compile.

    Attributes:
        unexplained: the absolute changes, in bytes, of functions that no flip can have changed.
        changed: the absolute changes, in bytes, of all functions.
    """

    unexplained: int
    changed: int

    @property
    def balances(self) -> bool:
        """Whether little enough is unexplained for the rest to be believed."""
        return self.unexplained <= max(_ALLOWED_BYTES, _ALLOWED_SHARE * self.changed)


def attribute(
    influences: Mapping[Flip, Mapping[str, int]], changes: Mapping[str, int]
) -> tuple[dict[Flip, int], Attribution]:
    """Attribute each function's change to the one flip that is nearest to it.

    Args:
        influences: the functions that each flip can have changed, with distances.
        changes: by how many bytes each function changed, where it did.

    Returns:
        The bytes of each flip, leaving out flips that share a function with another flip as near to it; and how much of
        the change that explains.
    """
    owners: dict[str, list[tuple[int, Flip]]] = defaultdict(list)
    for flip, influence in influences.items():
        for function, distance in influence.items():
            owners[function].append((distance, flip))
    found = dict.fromkeys(influences, 0)
    ambiguous: set[Flip] = set()
    unexplained = 0
    for function, change in changes.items():
        # What the compiler cut off a function has its name with something behind a dot.
        candidates = owners.get(function) or owners.get(function.partition(".")[0])
        if not candidates:
            unexplained += abs(change)
            continue
        least = min(distance for distance, _ in candidates)
        nearest = [flip for distance, flip in candidates if distance == least]
        if len(nearest) == 1:
            found[nearest[0]] += change
        else:
            ambiguous.update(nearest)
    books = Attribution(unexplained, sum(map(abs, changes.values())))
    return {flip: change for flip, change in found.items() if flip not in ambiguous}, books


def unrelated(candidates: Iterable[Flip], territory: Callable[[Flip], Collection[str]], most: int) -> list[Flip]:
    """Return flips whose territories do not meet, preferring those offered first.

    Args:
        candidates: the flips.
        territory: returns the functions that a flip may change, and those with whose flips it could be confused.
        most: the most flips.
    """
    chosen: list[Flip] = []
    taken: set[str] = set()
    for flip in candidates:
        functions = territory(flip)
        if taken.isdisjoint(functions):
            taken.update(functions)
            chosen.append(flip)
            if len(chosen) == most:
                break
    return chosen
