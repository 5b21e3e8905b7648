"""Many flips in one compile: which do not disturb each other, and which of them a function's bytes are due to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mlgo_gym.episode.inline_reach import Reach, explain, kept_calls
from mlgo_gym.episode.placed_compile import PlacedDecision

_ALLOWED_BYTES = 64
_ALLOWED_SHARE = 0.25

Candidate = TypeVar("Candidate")


class Territory:
    """Which functions can be expected to change when decisions are made otherwise.

    Args:
        decisions: all decisions of a compile.
        sizes: the bytes of each of its functions.
    """

    def __init__(self, decisions: Sequence[PlacedDecision], sizes: Mapping[str, int]) -> None:
        self._reach = Reach([decisions])
        self._kept = kept_calls(decisions)
        self._sizes = sizes

    def of(self, flips: Sequence[PlacedDecision]) -> set[str]:
        """Return the functions that the calls stand in, those that these are inlined into, and the callees at stake.

        Args:
            flips: the decisions that are made otherwise together, as they were.
        """
        found: set[str] = set()
        for component in {decision.component for decision in flips}:
            found.update(self._reach.of_component(component.split(", ")))
        for decision in flips:
            callee = decision.callee
            kept = self._kept.get(callee)
            came = decision.answer and callee not in self._sizes
            goes = not decision.answer and callee in self._sizes and kept is not None and kept.total() <= len(flips)
            if came or goes:
                found.add(callee)
        return found


def unrelated(
    candidates: Iterable[Candidate], territory: Callable[[Candidate], Collection[str]], most: int
) -> list[Candidate]:
    """Return candidates, the first that are offered first, whose territories do not meet.

    Args:
        candidates: what can be made otherwise.
        territory: returns the functions that a candidate can be expected to change.
        most: the most candidates.
    """
    chosen: list[Candidate] = []
    taken: set[str] = set()
    for candidate in candidates:
        functions = territory(candidate)
        if taken.isdisjoint(functions):
            taken.update(functions)
            chosen.append(candidate)
            if len(chosen) == most:
                break
    return chosen


def groups(count: int, explained: Mapping[str, Mapping[int, int]]) -> list[tuple[list[int], list[str]]]:
    """Return which causes meet in functions that changed, and those functions; causes that changed nothing alone.

    Args:
        count: the number of causes.
        explained: for each function the numbers of the causes that reach it, as `explain()` returns them.
    """
    leader = list(range(count))

    def find(number: int) -> int:
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = leader[number]
        return number

    for reaching in explained.values():
        first, *others = reaching
        for other in others:
            leader[find(other)] = find(first)
    members: dict[int, tuple[list[int], list[str]]] = {}
    for number in range(count):
        members.setdefault(find(number), ([], []))[0].append(number)
    for function, reaching in explained.items():
        members[find(next(iter(reaching)))][1].append(function)
    return list(members.values())


@dataclass(frozen=True, slots=True)
class Attribution:
    """What some flips in one compile were found to do.

    Attributes:
        bytes: by how many bytes each flip made the module larger; without those that share a function with others.
        unexplained: the bytes, without their signs, of functions that no flip can have changed.
        changed: the bytes, without their signs, of all functions that changed.
    """

    bytes: Mapping[int, int]
    unexplained: int
    changed: int

    @property
    def balances(self) -> bool:
        """Whether so little is unexplained that the others can be believed."""
        return self.unexplained <= max(_ALLOWED_BYTES, _ALLOWED_SHARE * self.changed)


def attribute(
    before: Sequence[PlacedDecision],
    after: Sequence[PlacedDecision],
    changes: Mapping[str, int],
    flips: Sequence[PlacedDecision],
    present: Mapping[str, int],
) -> Attribution:
    """Return what each of some flips did, where that can be told.

    Args:
        before: the decisions of one compile.
        after: those of another, which made the flips.
        changes: by how many bytes each function has changed, where it has.
        flips: the decisions that were made otherwise, as they were.
        present: the bytes of each function of the first compile.
    """
    explained = explain(before, after, changes, [[flip] for flip in flips], present)
    found = {
        causes[0]: sum(changes[function] for function in functions)
        for causes, functions in groups(len(flips), explained)
        if len(causes) == 1
    }
    unexplained = sum(abs(change) for function, change in changes.items() if function not in explained)
    return Attribution(found, unexplained, sum(map(abs, changes.values())))
