"""Moves of a search by bundles: flips of one call, and of several calls at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mlgo_gym.compiler.protocol.decision import DecisionSite
from mlgo_gym.episode.attribution.inline_compile import CallSite, InlineDecision, Visits

FEW_CALLS = 24
"""Moves with more calls are a kind of their own: they affect many functions, and few of them fit into one compile."""

MoveKey = tuple[str, tuple[tuple[CallSite, int], ...]]
"""Kind of a move, and each of its calls with its answer before the move."""

Flip = tuple[DecisionSite, InlineDecision]
"""A decision to flip, with its site in the expected compile."""


class Move(NamedTuple):
    """Decisions to flip together.

    Attributes:
        kind: `"keep"` or `"inline"` for one call; `"pair"` for two calls; `"keep callee"` or `"inline callee"` for all
            calls of a function; `"keep caller"` for all calls in a function; the last three with `", many"` for more
            than `FEW_CALLS`; the name of a policy for all calls in a function that it answers differently.
        key: Identity of the move.
        changes: Site and new answer of each decision.
        decisions: The decisions before the move.
    """

    kind: str
    key: MoveKey
    changes: tuple[tuple[DecisionSite, int], ...]
    decisions: tuple[InlineDecision, ...]

    @property
    def undo_key(self) -> MoveKey:
        """The key of the move that undoes a move of one call."""
        ((call, answer),) = self.key[1]
        return "keep" if self.kind == "inline" else "inline", ((call, 1 - answer),)


def make_move(kind: str, flips: Sequence[Flip]) -> Move:
    """Return the move that flips some decisions."""
    key = kind, tuple(((site, decision.callee), decision.answer) for site, decision in flips)
    changes = tuple((site, 1 - decision.answer) for site, decision in flips)
    return Move(kind, key, changes, tuple(decision for _, decision in flips))


def single_moves(visits: Visits) -> list[Move]:
    """Return the flip of each call."""
    return [make_move("keep" if decision.answer else "inline", [(site, decision)]) for site, decision in _flips(visits)]


def all_moves(visits: Visits, policies: Mapping[str, Sequence[int]]) -> list[Move]:
    """Return all moves, given the decisions by context and visit, and each policy's answers to all of them."""
    moves = single_moves(visits)
    calls_of: dict[str, list[Flip]] = defaultdict(list)
    calls_in: dict[str, list[Flip]] = defaultdict(list)
    for site, decision in _flips(visits):
        calls_of[decision.callee].append((site, decision))
        calls_in[site.context].append((site, decision))
    kinds = ("keep callee", calls_of, 0), ("inline callee", calls_of, 1), ("keep caller", calls_in, 0)
    for kind, groups, answer in kinds:
        for calls in groups.values():
            changed = [(site, decision) for site, decision in calls if decision.answer != answer]
            if len(changed) > 1:
                moves.append(make_move(kind if len(changed) <= FEW_CALLS else f"{kind}, many", changed))
    seen = {move.key[1] for move in moves if len(move.changes) > 1}
    for name, answers in policies.items():
        differing: dict[str, list[Flip]] = defaultdict(list)
        for (site, decision), action in zip(_flips(visits), answers, strict=False):
            if decision.answer != action:
                differing[site.context].append((site, decision))
        for calls in differing.values():
            if len(calls) > 1 and (move := make_move(name, calls)).key[1] not in seen:
                seen.add(move.key[1])
                moves.append(move)
    return moves


def _flips(visits: Visits) -> Iterator[Flip]:
    for (context, visit), decisions in visits.items():
        for index, decision in enumerate(decisions):
            yield DecisionSite(context, visit, index), decision
