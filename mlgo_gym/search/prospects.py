"""Which moves of a search promise most: what flips of their kind gained elsewhere, and what they did in this module."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mlgo_gym.episode.credit import expected_growth
from mlgo_gym.episode.placed_compile import PlacedDecision
from mlgo_gym.search.moves import Move

_LAST_CALL = 15000.0
"""What clang takes off its estimate for the last call of a function (llvm/include/llvm/Analysis/InlineCost.h)."""

_COSTS = (-20.0, 0.0, 25.0, 100.0, 300.0, 1000.0)
"""The edges of the classes of clang's estimate, `cost_estimate` without what it takes off for a last call."""

_SAVED = {
    "keep last": (0.3, 1.4, 0.4, 2.8, 3.0, 6.1, 20.5),
    "keep": (2.2, 2.4, 3.1, 8.6, 20.0, 20.0, 20.0),
    "inline": (8.0, 4.0, 3.9, 3.7, 3.5, 2.7, 2.2),
}
"""The bytes that a flip saves on the average of those that save and those that do not (which are not made, and so count
as nothing), by kind and class of costs: the 69,409 measured decisions of docs/results/labels outside of builtin, zstd
and sentencepiece, at both levels, cut off at 1,000 bytes; where there are fewer than 100, what is near."""

_BELIEF = 40.0
"""The promised bytes that it takes until what was found in this module counts as much as the table."""

_TOGETHER = 0.5
"""What moves of several calls are believed to save of what their single flips promise."""

_HOPE = 0.1
"""The same where all calls of a function are inlined, beside what it saves if the function goes."""

_SPREAD = 0.35


class Prospects:
    """What moves promise, by a table of measured flips that is corrected by what was found in this module."""

    def __init__(self) -> None:
        self._promised: dict[tuple[str, int], float] = defaultdict(float)
        self._saved: dict[tuple[str, int], float] = defaultdict(float)

    def note(self, move: Move, growth: float, copies: Mapping[str, float], sizes: Mapping[str, int]) -> None:
        """Remember by how many bytes a move made the module larger.

        Args:
            move: the move.
            growth: the bytes, negative where it helped.
            copies: what `copies()` returns.
            sizes: the bytes of each function before.
        """
        key = self._class(move)
        self._promised[key] += _promise(move, copies, sizes)
        self._saved[key] += max(0.0, -growth)

    def judge(
        self,
        moves: Collection[Move],
        copies: Mapping[str, float],
        sizes: Mapping[str, int],
        generator: np.random.Generator,
    ) -> npt.NDArray[np.float64]:
        """Return the bytes that each move promises to save, with some chance in it; float64 of shape (moves,)."""
        scores = np.empty(len(moves))
        for number, move in enumerate(moves):
            key = self._class(move)
            corrected = (self._saved[key] + _BELIEF) / (self._promised[key] + _BELIEF)
            scores[number] = _promise(move, copies, sizes) * corrected
        noise: npt.NDArray[np.float64] = np.exp(generator.normal(0.0, _SPREAD, len(moves)))
        return scores * noise

    def _class(self, move: Move) -> tuple[str, int]:
        if len(move.changes) > 1:
            return move.kind, 0
        return _kind(move.decisions[0])


def copies(decisions: Sequence[PlacedDecision], sizes: Mapping[str, int]) -> dict[str, float]:
    """Return how often the code of each function is in the object, its copies in other functions counted.

    Args:
        decisions: all decisions of a compile.
        sizes: the bytes of each of its functions.
    """
    into: dict[str, list[str]] = defaultdict(list)
    for decision in decisions:
        if decision.answer:
            into[decision.callee].append(decision.functions[0])
    found: dict[str, float] = {}

    def count(name: str, above: frozenset[str]) -> float:
        if name not in found:
            further = above | {name}
            inlined = sum(count(caller, further) for caller in into.get(name, ()) if caller not in further)
            found[name] = float(name in sizes) + inlined
        return found[name]

    for decision in decisions:
        count(decision.functions[0], frozenset())
    return found


def _kind(decision: PlacedDecision) -> tuple[str, int]:
    cost = decision.estimate
    last = cost < -_LAST_CALL / 2
    kind = ("keep last" if last else "keep") if decision.answer else "inline"
    return kind, bisect_right(_COSTS, cost + _LAST_CALL if last else cost)


def _promise(move: Move, copies: Mapping[str, float], sizes: Mapping[str, int]) -> float:
    """Return what a move promises by the table alone."""
    single = growth = 0.0
    for decision in move.decisions:
        kind, column = _kind(decision)
        times = max(1.0, copies.get(decision.functions[0], 1.0))
        single += _SAVED[kind][column] * times
        growth += expected_growth(decision.estimate) * times
    if len(move.changes) == 1:
        return single
    promised = _TOGETHER * single
    if move.kind.startswith("inline all"):
        promised = _TOGETHER * max(0.0, sizes.get(move.decisions[0].callee, 0) - growth) + _HOPE * single
    return promised
