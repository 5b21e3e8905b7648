"""What a search by many flips at once can try: single calls, and calls that only matter together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mlgo_gym.episode.inline_reach import Reach, kept_calls
from mlgo_gym.episode.placed_compile import PlacedDecision
from mlgo_gym.search.plan import Expectation, Site

MOST_TOGETHER = 24
"""The most calls that are changed together."""

_FEWEST_EXAMPLES = 40
_RIDGE = 3.0
_CLIP = 150.0


class Move(NamedTuple):
    """Some decisions made otherwise.

    Attributes:
        kind: `"keep"` or `"inline"` for one call; `"keep all"`, `"inline all"` for all calls of a function,
            `"bare"` for all calls within one, `"pair"` for two.
        key: what it is remembered by.
        changes: the decisions and their new answers.
        decisions: the same decisions as they were.
    """

    kind: str
    key: Hashable
    changes: tuple[tuple[Site, int], ...]
    decisions: tuple[PlacedDecision, ...]


def all_moves(expected: Expectation) -> list[Move]:
    """Return every single flip, and what changes all calls of a function or all calls within one."""
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
            if 2 <= len(changed) <= MOST_TOGETHER:
                moves.append(together(kind, changed))
    return moves


def together(kind: str, calls: list[tuple[Site, PlacedDecision]]) -> Move:
    """Return the move that flips some calls."""
    key = kind, tuple((*site, decision.callee, decision.answer) for site, decision in calls)
    changes = tuple((site, 1 - decision.answer) for site, decision in calls)
    return Move(kind, key, changes, tuple(decision for _, decision in calls))


class Territory:
    """Which functions a move can be expected to change.

    Args:
        expected: what it is a change of.
    """

    def __init__(self, expected: Expectation) -> None:
        decisions = expected.decisions
        self._reach = Reach([decisions])
        self._kept = kept_calls(decisions)
        self._sizes = expected.sizes

    def of(self, move: Move) -> set[str]:
        """Return the functions that the calls stand in, those that these are inlined into, and the callees at stake."""
        found: set[str] = set()
        for component in {decision.component for decision in move.decisions}:
            found.update(self._reach.of_component(component.split(", ")))
        for decision in move.decisions:
            callee = decision.callee
            kept = self._kept.get(callee)
            came = decision.answer and callee not in self._sizes
            goes = (
                not decision.answer and callee in self._sizes and kept is not None and kept.total() <= len(move.changes)
            )
            if came or goes:
                found.add(callee)
        return found


class Experience:
    """What moves of each kind have brought in this module, and which of the next are worth trying.

    Single flips are judged by a linear model of their features, moves of many calls by the mean of their kind.

    Args:
        features: the type of an observation of integers.
    """

    def __init__(self, features: int) -> None:
        self._features = features
        self._examples: dict[str, tuple[list[npt.NDArray[np.float64]], list[float]]] = {}
        self._groups: dict[str, list[float]] = defaultdict(list)

    def note(self, move: Move, gain: float) -> None:
        """Remember by how many bytes a move made the module larger."""
        if len(move.changes) > 1:
            self._groups[move.kind].append(gain)
            return
        vectors, gains = self._examples.setdefault(move.kind, ([], []))
        vectors.append(self._vector(move))
        gains.append(float(np.clip(gain, -_CLIP, _CLIP)))

    def judge(self, moves: Collection[Move], generator: np.random.Generator) -> npt.NDArray[np.float64]:
        """Return the bytes that each move is expected to add, with some chance in it; float64 of shape (moves,)."""
        moves = list(moves)
        scores = np.empty(len(moves))
        weights = {kind: self._fit(*examples) for kind, examples in self._examples.items()}
        for number, move in enumerate(moves):
            if len(move.changes) > 1:
                gains = self._groups[move.kind]
                scores[number] = (sum(gains) - 20.0) / (len(gains) + 1)
                continue
            fitted = weights.get(move.kind)
            scores[number] = (
                0.0 if fitted is None else (self._vector(move) - fitted[1]) / fitted[2] @ fitted[0] + fitted[3]
            )
        spread = float(scores.std()) if len(scores) else 0.0
        return scores + generator.normal(0.0, 0.5 * spread + 1.0, len(moves))

    def _vector(self, move: Move) -> npt.NDArray[np.float64]:
        values = np.frombuffer(move.decisions[0].payload, np.int64, self._features).astype(np.float64)
        vector: npt.NDArray[np.float64] = np.sign(values) * np.log1p(np.abs(values))
        return vector

    def _fit(
        self, vectors: list[npt.NDArray[np.float64]], gains: list[float]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64], float] | None:
        if len(gains) < _FEWEST_EXAMPLES:
            return None
        matrix, target = np.array(vectors), np.array(gains)
        mean, deviation = matrix.mean(0), matrix.std(0) + 1e-6
        matrix = (matrix - mean) / deviation
        middle = float(target.mean())
        system = matrix.T @ matrix + _RIDGE * np.eye(matrix.shape[1])
        weights = np.linalg.solve(system, matrix.T @ (target - middle))
        return weights, mean, deviation, middle


def disjoint(
    moves: list[Move], order: npt.NDArray[np.int64], territory: Territory, most: int, taken: Mapping[str, object]
) -> list[Move]:
    """Return moves, the first in order first, no two of which are expected to change the same function.

    Args:
        moves: the moves.
        order: their numbers, in the order in which they are wanted; int64 of shape (moves,).
        territory: tells what they are expected to change.
        most: the most moves.
        taken: functions that none may be expected to change.
    """
    chosen: list[Move] = []
    held = set(taken)
    for number in order.tolist():
        functions = territory.of(moves[number])
        if held.isdisjoint(functions):
            held |= functions
            chosen.append(moves[number])
            if len(chosen) == most:
                break
    return chosen
