"""Many flips in one compile: which flips are independent, and the bytes of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mlgo_gym.episode.attribution.affected_functions import causes_of_changes
from mlgo_gym.episode.attribution.inline_compile import InlineDecision

_UNEXPLAINED_BYTES = 64
_UNEXPLAINED_SHARE = 0.25

Candidate = TypeVar("Candidate")


def independent(
    candidates: Iterable[Candidate], affected: Callable[[Candidate], Collection[str]], limit: int
) -> list[Candidate]:
    """Return at most `limit` candidates, by preference, whose `affected` functions do not overlap."""
    chosen: list[Candidate] = []
    taken: set[str] = set()
    for candidate in candidates:
        functions = affected(candidate)
        if taken.isdisjoint(functions):
            taken.update(functions)
            chosen.append(candidate)
            if len(chosen) == limit:
                break
    return chosen


def group_causes(count: int, causes: Mapping[str, Mapping[int, int]]) -> list[tuple[list[int], list[str]]]:
    """Return the groups of `count` causes that share a changed function, each with its changed functions.

    A cause that changed nothing is a group of its own. `causes` are those of `causes_of_changes()`.
    """
    leader = list(range(count))

    def find(cause: int) -> int:
        while leader[cause] != cause:
            leader[cause] = leader[leader[cause]]
            cause = leader[cause]
        return cause

    for reaching in causes.values():
        first, *others = reaching
        for other in others:
            leader[find(other)] = find(first)
    members: dict[int, tuple[list[int], list[str]]] = {}
    for cause in range(count):
        members.setdefault(find(cause), ([], []))[0].append(cause)
    for function, reaching in causes.items():
        members[find(next(iter(reaching)))][1].append(function)
    return list(members.values())


@dataclass(frozen=True, slots=True)
class FlipEffects:
    """The effects of several flips in one compile.

    Attributes:
        bytes: Growth of the module in bytes for each flip by index; flips that share a changed function are absent.
        unexplained: Absolute change in bytes of the functions that no flip can have changed.
        changed: Absolute change in bytes of all functions.
    """

    bytes: Mapping[int, int]
    unexplained: int
    changed: int

    @property
    def is_reliable(self) -> bool:
        """Whether the unexplained change is small enough to trust `bytes`."""
        return self.unexplained <= max(_UNEXPLAINED_BYTES, _UNEXPLAINED_SHARE * self.changed)


def flip_effects(
    before: Sequence[InlineDecision],
    after: Sequence[InlineDecision],
    changes: Mapping[str, int],
    flips: Sequence[InlineDecision],
    sizes: Mapping[str, int],
    *,
    counts_calls: bool = False,
) -> FlipEffects:
    """Return the effect of each flip of a compile.

    Args:
        before: The decisions of the compile without the flips.
        after: The decisions of the compile with the flips.
        changes: Growth of each function in bytes; unchanged functions are absent.
        flips: The flipped decisions, as in `before`.
        sizes: Bytes of each function of the compile without the flips.
        counts_calls: Whether a function also changes when it is called more or less often.
    """
    causes = causes_of_changes(before, after, changes, [[flip] for flip in flips], sizes, counts_calls=counts_calls)
    found = {
        group[0]: sum(changes[function] for function in functions)
        for group, functions in group_causes(len(flips), causes)
        if len(group) == 1
    }
    unexplained = sum(abs(change) for function, change in changes.items() if function not in causes)
    return FlipEffects(found, unexplained, sum(map(abs, changes.values())))
