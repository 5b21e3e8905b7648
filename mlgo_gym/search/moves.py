"""What a search by many flips at once can try: single calls, and calls that only matter together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mlgo_gym.episode.placed_compile import PlacedDecision
from mlgo_gym.search.expectation import Expectation
from mlgo_gym.search.plan import Site

FEW = 24
"""Moves of more calls than that are a kind of their own: they reach far, and few of them fit into one compile."""

MoveKey = tuple[str, tuple[tuple[str, int, int, str, int], ...]]
"""The kind of a move, and for each call that it changes its place, its callee and the answer that it had."""


class Move(NamedTuple):
    """Some decisions with other answers.

    Attributes:
        kind: `"keep"` or `"inline"` for one call; `"keep all"`, `"inline all"` for all calls of a function,
            `"bare"` for all calls within one, each with `", many"` for more than `FEW`; `"pair"` for two; the name of a
            rule for the calls within a function that it answers otherwise.
        key: what identifies it.
        changes: the decisions and their new answers.
        decisions: the same decisions as they were.
    """

    kind: str
    key: MoveKey
    changes: tuple[tuple[Site, int], ...]
    decisions: tuple[PlacedDecision, ...]

    @property
    def undoing(self) -> MoveKey:
        """The key of the single flip that takes a single flip back."""
        ((component, visit, place, callee, answer),) = self.key[1]
        return "keep" if self.kind == "inline" else "inline", ((component, visit, place, callee, 1 - answer),)


def all_moves(expected: Expectation, rules: Mapping[str, Sequence[int]]) -> list[Move]:
    """Return every single flip, and what changes all calls of a function or all calls within one.

    Args:
        expected: what they change.
        rules: the answers of other policies to all its decisions, by name: for each function, the calls in it that a
            policy answers differently are one move.
    """
    moves: list[Move] = []
    calls_of: dict[str, list[tuple[Site, PlacedDecision]]] = defaultdict(list)
    calls_in: dict[str, list[tuple[Site, PlacedDecision]]] = defaultdict(list)
    for (component, visit), decisions in expected.visits.items():
        for index, decision in enumerate(decisions):
            site = Site(component, visit, index)
            moves.append(together("inline" if not decision.answer else "keep", [(site, decision)]))
            calls_of[decision.callee].append((site, decision))
            calls_in[component].append((site, decision))
    for kind, groups, new in (("keep all", calls_of, 0), ("inline all", calls_of, 1), ("bare", calls_in, 0)):
        for calls in groups.values():
            changed = [(site, decision) for site, decision in calls if decision.answer != new]
            if len(changed) > 1:
                moves.append(together(kind if len(changed) <= FEW else f"{kind}, many", changed))
    known = {move.key[1] for move in moves if len(move.changes) > 1}
    for name, answers in rules.items():
        ruled = iter(answers)
        otherwise: dict[str, list[tuple[Site, PlacedDecision]]] = defaultdict(list)
        for (component, visit), decisions in expected.visits.items():
            for index, (decision, answer) in enumerate(zip(decisions, ruled, strict=False)):
                if decision.answer != answer:
                    otherwise[component].append((Site(component, visit, index), decision))
        for changed in otherwise.values():
            if len(changed) > 1 and (move := together(name, changed)).key[1] not in known:
                known.add(move.key[1])
                moves.append(move)
    return moves


def together(kind: str, calls: list[tuple[Site, PlacedDecision]]) -> Move:
    """Return the move that flips some calls."""
    key = kind, tuple((*site, decision.callee, decision.answer) for site, decision in calls)
    changes = tuple((site, 1 - decision.answer) for site, decision in calls)
    return Move(kind, key, changes, tuple(decision for _, decision in calls))
