"""Credit: the bytes that each inlining decision of an episode saved, estimated from one reference compile.

The text of a module is the sum of its functions. A decision changes the function of its call, the functions that this
one is inlined into, and functions that lose their last call or keep one. The change of each function against the
reference is shared among the differing decisions that reach it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mlgo_gym.episode.attribution.affected_functions import causes_of_changes
from mlgo_gym.episode.attribution.inline_compile import InlineCompile, differing, with_counterpart
from mlgo_gym.llvm.sizes import size_changes

Number = TypeVar("Number", int, float)

_BYTES_PER_COST = 0.5
"""Bytes per unit of clang's cost estimate."""

_BYTES_PER_CALL = 4.0
"""Bytes of a call instruction with its arguments."""

_MIN_COST, _MAX_COST = -200.0, 1500.0
"""Bounds for the cost estimate."""

_LAST_CALL_BONUS = 15000.0
"""Clang subtracts this from the cost of a function's last call (llvm/include/llvm/Analysis/InlineCost.h)."""

_MIN_WEIGHT = 8.0
"""Weight in bytes of a decision with an expected growth of 0."""


class Credit(NamedTuple):
    """The credit of the decisions of an episode.

    Attributes:
        saved: Bytes, or cost, that each decision saved, float64 of shape (decisions,). Positive: the decision made the
            module smaller. The credits add up to the text of the reference minus the text of the episode.
        exact: Whether no other differing decision reaches the functions of the credit, bool of shape (decisions,).
    """

    saved: npt.NDArray[np.float64]
    exact: npt.NDArray[np.bool_]


class CostChanges(NamedTuple):
    """The changes of a cost between two compiles: growth by function without unchanged ones, and of the module.

    Attributes:
        before: Cost of each function in the first compile.
        counts_calls: Whether the cost of a function also changes when it is called more or less often.
    """

    functions: Mapping[str, float]
    total: float
    before: Mapping[str, float]
    counts_calls: bool = False


def credit(
    reference: InlineCompile,
    episode: InlineCompile,
    eligible: Sequence[int] | None = None,
    costs: CostChanges | None = None,
) -> Credit:
    """Return the credit of each decision of an episode against a reference compile of the same module.

    The change of a function is shared among the differing decisions that reach it. The weight of a decision halves with
    each inlining step between the function and the call. A change that no differing decision reaches is shared equally
    among all differing decisions, or among all eligible decisions if none differs.

    Args:
        reference: The compile to compare with, usually clang's own decisions.
        episode: The compile of the episode.
        eligible: Indices of the decisions that can have credit, in order; default: all. The effects of other differing
            decisions count as effects of these.
        costs: The changes to share instead of bytes.
    """
    count = len(episode.decisions)
    saved, exact = np.zeros(count), np.zeros(count, bool)
    causes = differing(reference.decisions, episode.decisions)
    if eligible is not None:
        allowed = frozenset(eligible)
        causes = [index for index in causes if index in allowed]
    exact[causes] = True
    names = _named_functions(reference) | _named_functions(episode)
    if costs is None:
        growth_by_function = size_changes(reference.functions, episode.functions)
        costs = CostChanges(growth_by_function, episode.text - reference.text, reference.functions.functions)
        decisions = [episode.decisions[index] for index in causes]
        expected = np.array([expected_growth(one.estimate) * (1 if one.answer else -1) for one in decisions])
    else:
        expected = np.zeros(len(causes))
    changes = merge_split_parts(costs.functions, names)
    sizes = merge_split_parts(costs.before, names)
    pairs = [with_counterpart(reference.visits, episode.decisions[index]) for index in causes]
    reasons = causes_of_changes(
        reference.decisions, episode.decisions, changes, pairs, sizes, counts_calls=costs.counts_calls
    )
    left = -costs.total
    for function, distances in reasons.items():
        reaching = np.fromiter(distances, np.int64, len(distances))
        nearness = 0.5 ** np.fromiter(distances.values(), np.float64, len(distances))
        # The cost of calls says nothing about a function that appears or vanishes.
        is_unstable = function not in sizes or changes[function] == -sizes[function]
        growth = nearness * (0.0 if is_unstable else expected[reaching])
        weights = np.abs(growth) + _MIN_WEIGHT * nearness
        indices = np.array(causes, np.int64)[reaching]
        saved[indices] -= growth + (changes[function] - growth.sum()) * weights / weights.sum()
        left += changes[function]
        if len(indices) > 1:
            exact[indices] = False
    if left and count:
        sharing = list(causes or eligible or range(count))
        saved[sharing] += left / len(sharing)
        exact[sharing] = False
    return Credit(saved, exact)


def is_last_call(estimate: float) -> bool:
    """Return whether clang's cost estimate has the bonus for the last call of a function."""
    return estimate < -_LAST_CALL_BONUS / 2


def cost_of_call(estimate: float) -> float:
    """Return clang's cost estimate without the bonus for the last call of a function."""
    return estimate + _LAST_CALL_BONUS if is_last_call(estimate) else estimate


def expected_growth(estimate: float) -> float:
    """Return the expected growth of the caller in bytes when a call is inlined, from the feature `cost_estimate`.

    The constants fit the 69,471 measured decisions of the bundled labels.
    """
    return _BYTES_PER_COST * min(max(cost_of_call(estimate), _MIN_COST), _MAX_COST) - _BYTES_PER_CALL


def _named_functions(compiled: InlineCompile) -> set[str]:
    return {name for decision in compiled.decisions for name in (*decision.functions, decision.callee)}


def merge_split_parts(sizes: Mapping[str, Number], names: Collection[str]) -> dict[str, Number]:
    """Return bytes by function from bytes by symbol: split-off parts (`f.cold`) of the named functions are merged."""
    merged: dict[str, Any] = {}
    for symbol, size in sizes.items():
        function = symbol.partition(".")[0]
        name = function if symbol not in names and function in names else symbol
        merged[name] = merged.get(name, 0) + size
    return {name: size for name, size in merged.items() if size}
