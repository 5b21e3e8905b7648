"""LLVM's own eviction heuristic, as far as the features of the eviction advisor show it.

The original is DefaultEvictionAdvisor::tryFindEvictionCandidate (llvm/lib/CodeGen/RegAllocEvictionAdvisor.cpp).
It uses two facts that the features do not show, so the rule is close to it and not exact:

- Weights are divided by the largest of all columns. Where one is infinite, because its live range must not be spilled,
  every finite one becomes 0: then no column looks lighter than the candidate, and the rule evicts nothing. So it is at
  a sixth of the decisions of the builtin corpus; mostly that is right, and elsewhere a function comes out differently.
- When a free register costs more to use than others, clang looks for a cheaper one, and then breaks no hint and evicts
  nothing that is local; the features do not tell such a search from another.

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
    which stands for evicting nothing.

    Args:
        mask: the feature `mask`: which columns are legal.
        is_hint: the feature `is_hint`: the column is a register that the candidate prefers.
        is_local: the feature `is_local`: how many of the live ranges to evict are local to the candidate's block.
        broken_hints: the feature `nr_broken_hints`, divided by its largest.
        urgent: the feature `nr_urgent`, divided by its largest.
        weight: the feature `use_def_density`, which holds the largest spill weight, divided by its largest; NaN is an
            infinite one.
        ratio: how heavy the live ranges to evict may be, relative to the candidate; 1 in LLVM.
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
