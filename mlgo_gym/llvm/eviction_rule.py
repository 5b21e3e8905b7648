"""LLVM's own eviction heuristic, as far as the features of the eviction advisor show it.

The original is DefaultEvictionAdvisor::tryFindEvictionCandidate (llvm/lib/CodeGen/RegAllocEvictionAdvisor.cpp).
It uses two facts that the features do not show, so the rule is close to it and not exact:

- Weights are divided by the largest of all columns. A live range that must not be spilled has an infinite weight, and
  every finite weight becomes 0. Then no column looks lighter than the candidate, and the rule evicts nothing. A sixth
  of the decisions of the builtin corpus are such cases; the choice is mostly clang's own.
- If a free register costs more than others, clang looks for a cheaper one. Then it breaks no hint and evicts nothing
  local. The features do not show such a search.

The manual page of `RegAllocEvict` counts the functions for which the rule gives clang's own code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def default_eviction(
    mask: Sequence[int],
    is_hint: Sequence[float],
    is_local: Sequence[float],
    broken_hints: Sequence[float],
    urgent: Sequence[float],
    weight: Sequence[float],
    *,
    ratio: float = 1.0,
) -> int:
    """Return the column that LLVM's own heuristic would choose.

    Each argument has one element per column: first the positions of the allocation order, last the candidate itself,
    which means no eviction.

    Args:
        mask: the feature `mask`: which columns are legal.
        is_hint: the feature `is_hint`: the column is a register that the candidate prefers.
        is_local: the feature `is_local`: how many of the live ranges to evict are local to the candidate's block.
        broken_hints: the feature `nr_broken_hints`, divided by its largest.
        urgent: the feature `nr_urgent`, divided by its largest.
        weight: the feature `use_def_density`, which holds the largest spill weight, divided by its largest; NaN is an
            infinite one.
        ratio: maximum weight of the live ranges to evict, relative to the candidate; 1 in LLVM.
    """
    candidate = len(mask) - 1
    may_decline = bool(mask[candidate])
    limit = _weight(weight[candidate]) * ratio
    best_column = candidate
    best_cost = (math.inf, math.inf)
    for column in range(candidate):
        if not mask[column]:
            continue
        own = _weight(weight[column])
        cost = (broken_hints[column] + 10 * urgent[column], own)
        if not cost < best_cost:
            continue
        if may_decline:
            if not own < limit:
                continue
            if best_column != candidate and is_local[column]:
                continue
        best_column, best_cost = column, cost
        if is_hint[column]:
            break
    if best_column == candidate and not may_decline:
        return next(column for column in range(candidate) if mask[column])
    return best_column


def _weight(value: float) -> float:
    return math.inf if math.isnan(value) else value
