"""Which bytes belong to which decision of an episode.

The code of a module is the sum of its functions, and a decision changes few of them: the function that its call
stands in, those that this one is inlined into, and functions that lose their last call or keep one. So what each
function gained or lost against another compile belongs to the decisions that were made otherwise and reach it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mlgo_gym.episode.inline_reach import explain
from mlgo_gym.episode.placed_compile import PlacedCompile, PlacedDecision
from mlgo_gym.llvm.function_sizes import size_changes


@dataclass(frozen=True, slots=True)
class Credit:
    """What each decision of an episode saved.

    Attributes:
        bytes: float64 of shape (number of decisions,): positive where it made the module smaller. Their sum is the
            text of the reference less that of the episode.
        exact: bool of the same shape: whether all that the decision got is from functions that no other decision that
            was made otherwise reaches.
        unexplained: the bytes that were shared among all because no decision reaches the functions that they are of.
    """

    bytes: npt.NDArray[np.float64]
    exact: npt.NDArray[np.bool_]
    unexplained: int


def differing(reference: PlacedCompile, episode: PlacedCompile) -> list[int]:
    """Return the numbers of the decisions of an episode that were made otherwise than in a reference.

    A decision is compared with that at the same place and of the same callee. Where the reference has none, because the
    call came with code that was inlined, it counts when it is not clang's own choice.
    """
    known = {(*decision[:3], decision.callee): decision.answer for decision in reference.decisions}
    return [
        number
        for number, decision in enumerate(episode.decisions)
        if decision.answer != known.get((*decision[:3], decision.callee), decision.default)
    ]


def credit(reference: PlacedCompile, episode: PlacedCompile, own: Sequence[int] | None = None) -> Credit:
    """Return what each decision of an episode saved against a reference, another compile of the same module.

    What a function gained or lost is shared among the decisions that were made otherwise and reach it: a decision in
    the function itself counts twice as much as one in a function that was inlined into it, and so on by halves. What
    none reaches is shared equally by all that were made otherwise; where there are none, by all.

    Args:
        reference: the compile to compare with; mostly that of clang's own choices.
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
    changes = size_changes(reference.functions, episode.functions)
    explained = explain(
        reference.decisions,
        episode.decisions,
        changes,
        [_both(reference, episode.decisions[number]) for number in causes],
        reference.functions.functions,
    )
    left = reference.text - episode.text
    for function, reaching in explained.items():
        numbers = np.fromiter((causes[cause] for cause in reaching), np.int64, len(reaching))
        weights = 0.5 ** np.fromiter(reaching.values(), np.float64, len(reaching))
        saved[numbers] -= changes[function] * weights / weights.sum()
        left += changes[function]
        if len(numbers) > 1:
            exact[numbers] = False
    if left and count:
        sharing = causes or own or range(count)
        saved[list(sharing)] += left / len(sharing)
        exact[list(sharing)] = False
    return Credit(saved, exact, left)


def _both(reference: PlacedCompile, decision: PlacedDecision) -> list[PlacedDecision]:
    """Return a decision, and what stands at its place in the reference."""
    before = reference.visits.get(decision[:2], [])
    return [decision, *before[decision.position : decision.position + 1]]
