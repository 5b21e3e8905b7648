"""Ranks the moves of a search by expected savings: from measured flips of other modules, and from this search."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from mlgo_gym.episode.attribution.credit import cost_of_call, expected_growth, is_last_call
from mlgo_gym.episode.attribution.inline_compile import InlineDecision
from mlgo_gym.search.moves import Move

_COST_EDGES = (-20.0, 0.0, 25.0, 100.0, 300.0, 1000.0)  # of the classes of cost_of_call()

_MEAN_SAVINGS = {
    "keep last": (0.3, 1.4, 0.4, 2.8, 3.0, 6.1, 20.5),
    "keep": (2.2, 2.4, 3.1, 8.6, 20.0, 20.0, 20.0),
    "inline": (8.0, 4.0, 3.9, 3.7, 3.5, 2.7, 2.2),
}
"""Mean bytes saved by a flip, by kind and class of cost; a flip that saves nothing counts as 0.

Measured on the 69,409 decisions of the bundled labels outside builtin, zstd and sentencepiece, at both levels. Savings
are cut off at 1,000 bytes; classes with fewer than 100 decisions have the value of their neighbours.
"""

_PRIOR_BYTES = 40.0  # Expected savings of tried moves at which their real savings weigh as much as the table.
_PRIOR_SHARE = 1e-3  # The same as a share of the cost of the module, where that is not in bytes.
_JOINT_SHARE = 0.5  # Savings of a move of several calls, as a share of the savings of its flips.
_INLINE_CALLEE_SHARE = 0.1  # The same for inlining all calls of a function, beyond the bytes of the function.
_NOISE_SIGMA = 0.35  # Standard deviation of the logarithm of the random factor on each score.


_SHARE_OF_CALLEE = 0.1
"""Savings of a flip that changes how often a function is called, as a share of what its callee costs, by a guess."""

_SHARE_OF_CALLER = 0.02
"""The same, as a share of what the function of the call costs."""


class MoveRanking:
    """Scores moves by expected savings; corrects the table of measured flips by the results of this search.

    Args:
        by_cost: Whether to expect a share of the costs of the caller and the callee instead of the table, which is in
            bytes.
    """

    def __init__(self, *, by_cost: bool = False) -> None:
        self._by_cost = by_cost
        self._expected: dict[tuple[str, int], float] = defaultdict(float)
        self._saved: dict[tuple[str, int], float] = defaultdict(float)

    def record(self, move: Move, growth: float, copies: Mapping[str, float], costs: Mapping[str, int]) -> None:
        """Record the growth of the cost by a move; copies and costs by function are those before the move."""
        kind = _kind_of_move(move)
        self._expected[kind] += self._savings(move, copies, costs)
        self._saved[kind] += max(0.0, -growth)

    def scores(
        self,
        moves: Sequence[Move],
        copies: Mapping[str, float],
        costs: Mapping[str, int],
        generator: np.random.Generator,
    ) -> npt.NDArray[np.float64]:
        """Return the expected savings of each move, times random noise; float64 of shape (moves,)."""
        scores = np.empty(len(moves))
        prior = max(_PRIOR_SHARE * sum(costs.values()), 1.0) if self._by_cost else _PRIOR_BYTES
        for index, move in enumerate(moves):
            kind = _kind_of_move(move)
            correction = (self._saved[kind] + prior) / (self._expected[kind] + prior)
            scores[index] = self._savings(move, copies, costs) * correction
        return np.asarray(scores * np.exp(generator.normal(0.0, _NOISE_SIGMA, len(moves))))

    def _savings(self, move: Move, copies: Mapping[str, float], costs: Mapping[str, int]) -> float:
        if not self._by_cost:
            return _expected_savings(move, copies, costs)
        return sum(
            _SHARE_OF_CALLEE * costs.get(decision.callee, 0)
            + _SHARE_OF_CALLER * sum(costs.get(name, 0) for name in decision.functions)
            for decision in move.decisions
        )


def code_copies(decisions: Sequence[InlineDecision], sizes: Mapping[str, int]) -> dict[str, float]:
    """Return the number of copies of each caller's code in the object of a compile, including inlined copies."""
    into: dict[str, list[str]] = defaultdict(list)
    for decision in decisions:
        if decision.answer:
            into[decision.callee].append(decision.functions[0])
    copies: dict[str, float] = {}

    def count(name: str, above: frozenset[str]) -> float:
        if name not in copies:
            path = above | {name}
            inlined = sum(count(caller, path) for caller in into.get(name, ()) if caller not in path)
            copies[name] = float(name in sizes) + inlined
        return copies[name]

    for decision in decisions:
        count(decision.functions[0], frozenset())
    return copies


def _kind_of_move(move: Move) -> tuple[str, int]:
    return (move.kind, 0) if len(move.changes) > 1 else _kind_of_flip(move.decisions[0])


def _kind_of_flip(decision: InlineDecision) -> tuple[str, int]:
    kind = ("keep last" if is_last_call(decision.estimate) else "keep") if decision.answer else "inline"
    return kind, bisect_right(_COST_EDGES, cost_of_call(decision.estimate))


def _expected_savings(move: Move, copies: Mapping[str, float], sizes: Mapping[str, int]) -> float:
    """Return the expected savings of a move in bytes, by the table alone."""
    savings = growth = 0.0
    for decision in move.decisions:
        kind, column = _kind_of_flip(decision)
        times = max(1.0, copies.get(decision.functions[0], 1.0))
        savings += _MEAN_SAVINGS[kind][column] * times
        growth += expected_growth(decision.estimate) * times
    if len(move.changes) == 1:
        return savings
    if move.kind.startswith("inline callee"):
        callee_bytes = max(0.0, sizes.get(move.decisions[0].callee, 0) - growth)
        return _JOINT_SHARE * callee_bytes + _INLINE_CALLEE_SHARE * savings
    return _JOINT_SHARE * savings
