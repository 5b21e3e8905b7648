"""Which bytes belong to which decision of an episode.

The code of a module is the sum of its functions, and a decision changes few of them: the function that its call
stands in, those that this one is inlined into, and functions that lose their last call or keep one. So what each
function gained or lost against another compile is credited to the differing decisions that reach it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mlgo_gym.episode.inline_reach import explain
from mlgo_gym.episode.placed_compile import PlacedCompile, PlacedDecision
from mlgo_gym.llvm.function_sizes import size_changes

_BYTES_PER_COST, _BYTES_PER_CALL = 0.5, 4.0
"""How many bytes a unit of clang's estimate stands for, and how many a call that is gone."""

_LEAST_COST, _MOST_COST = -200.0, 1500.0
"""Estimates outside are taken for these."""

_LAST_CALL = 15000.0
"""What clang takes off its estimate for the last call of a function (llvm/include/llvm/Analysis/InlineCost.h)."""

_LEAST_GROWTH = 8.0
"""The bytes for which a decision counts that is expected to change nothing."""


@dataclass(frozen=True, slots=True)
class Credit:
    """What each decision of an episode saved.

    Attributes:
        bytes: float64 of shape (number of decisions,): positive where it made the module smaller. Their sum is the
            text of the reference less that of the episode.
        exact: bool of the same shape: whether everything credited to the decision comes from functions that no other
            differing decision reaches.
        unexplained: the bytes in functions that no differing decision reaches; they are shared equally.
    """

    bytes: npt.NDArray[np.float64]
    exact: npt.NDArray[np.bool_]
    unexplained: int


def differing(reference: PlacedCompile, episode: PlacedCompile) -> list[int]:
    """Return the numbers of the decisions in which an episode differs from a reference.

    A decision is compared with the one at the same place about the same callee. Where the reference has none, because
    the call came in with inlined code, a decision differs if it is not clang's own choice.
    """
    known = {(*decision[:3], decision.callee): decision.answer for decision in reference.decisions}
    return [
        number
        for number, decision in enumerate(episode.decisions)
        if decision.answer != known.get((*decision[:3], decision.callee), decision.default)
    ]


def credit(reference: PlacedCompile, episode: PlacedCompile, own: Sequence[int] | None = None) -> Credit:
    """Return what each decision of an episode saved against a reference, another compile of the same module.

    What a function gained or lost is shared among the differing decisions that reach it: a decision in the function
    itself counts twice as much as one in a function that was inlined into it, and so on by halves. What no differing
    decision reaches is shared equally among all of those; if there are none, among all.

    Args:
        reference: the compile to compare with, usually the one that takes clang's own choices.
        episode: the episode.
        own: the numbers of the decisions that can have credit, in order; by default all. What clang decides otherwise
            because of them is their doing.
    """
    count = len(episode.decisions)
    saved, exact = np.zeros(count), np.zeros(count, bool)
    causes = differing(reference, episode)
    if own is not None:
        allowed = frozenset(own)
        causes = [number for number in causes if number in allowed]
    exact[causes] = True
    known = _functions(reference) | _functions(episode)
    changes = with_parts(size_changes(reference.functions, episode.functions), known)
    before = with_parts(reference.functions.functions, known)
    explained = explain(
        reference.decisions,
        episode.decisions,
        changes,
        [_both(reference, episode.decisions[number]) for number in causes],
        before,
    )
    left = reference.text - episode.text
    expected = np.array([_growth_by(episode.decisions[number]) for number in causes])
    for function, reaching in explained.items():
        at = np.fromiter(reaching, np.int64, len(reaching))
        nearness = 0.5 ** np.fromiter(reaching.values(), np.float64, len(reaching))
        # Of a function that came or went as a whole, what calls in it would cost says nothing.
        whole = function not in before or changes[function] == -before[function]
        growth = nearness * (0.0 if whole else expected[at])
        weights = np.abs(growth) + _LEAST_GROWTH * nearness
        numbers = np.array(causes, np.int64)[at]
        saved[numbers] -= growth + (changes[function] - growth.sum()) * weights / weights.sum()
        left += changes[function]
        if len(numbers) > 1:
            exact[numbers] = False
    if left and count:
        sharing = causes or own or range(count)
        saved[list(sharing)] += left / len(sharing)
        exact[list(sharing)] = False
    return Credit(saved, exact, left)


def _growth_by(decision: PlacedDecision) -> float:
    """Return by how many bytes a decision should have grown the function of its call, against the other answer."""
    growth = expected_growth(decision.estimate)
    return growth if decision.answer else -growth


def expected_growth(estimate: float) -> float:
    """Return by how many bytes inlining a call is expected to grow the function that it stands in.

    The numbers were chosen on the 69,471 measured decisions of docs/results/labels: benchmarks/credit_sharing.py.

    Args:
        estimate: clang's own estimate of the cost, the feature `cost_estimate`.
    """
    cost = estimate + _LAST_CALL if estimate < -_LAST_CALL / 2 else estimate
    return _BYTES_PER_COST * min(max(cost, _LEAST_COST), _MOST_COST) - _BYTES_PER_CALL


def _functions(compiled: PlacedCompile) -> set[str]:
    """Return the functions that decisions name."""
    names = {name for decision in compiled.decisions for name in decision.functions}
    return names | {decision.callee for decision in compiled.decisions}


def with_parts(sizes: Mapping[str, int], known: Collection[str]) -> dict[str, int]:
    """Return bytes by function, those of what the compiler cut off one or made of it (`f.cold`) with the function's.

    Args:
        sizes: the bytes by symbol.
        known: the functions that decisions name.
    """
    joined: dict[str, int] = {}
    for symbol, size in sizes.items():
        whole = symbol.partition(".")[0]
        name = whole if symbol not in known and whole in known else symbol
        joined[name] = joined.get(name, 0) + size
    return {name: size for name, size in joined.items() if size}


def _both(reference: PlacedCompile, decision: PlacedDecision) -> list[PlacedDecision]:
    """Return a decision, and what stands at its place in the reference."""
    before = reference.visits.get(decision[:2], [])
    return [decision, *before[decision.position : decision.position + 1]]
