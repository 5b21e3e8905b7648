"""The decision points of clang that can be asked over a channel, their flags, and clang's own rule of eviction."""

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mlgo_clang import channel
from mlgo_gym.llvm.training_log import LogHeader

Answer = Callable[[LogHeader, bytes], bytes]

INLINING_DEFAULT = "inlining_default"
"""Feature of the inlining advisor: the choice of clang's own heuristic. LLVM has it only in interactive mode."""


def _last_legal(header: LogHeader, payload: bytes) -> bytes:
    """Return the last column whose mask is 1: "evict nothing" where that is legal."""
    (mask,) = np.frombuffer(payload, header.dtype)["mask"]
    return struct.pack("<q", np.flatnonzero(mask)[-1])


@dataclass(frozen=True, slots=True)
class Advisor:
    """One decision point of LLVM that takes advice over two files.

    Attributes:
        options: `-mllvm` options that replace clang's own advisor; those that end in `=` take the path of the files.
        scalar_type: type of the answer, as the header must state it.
        answer: returns the bytes of any legal answer, given the header of the channel and the bytes of an observation.
        trial: textual IR, read by every clang, in which it requests decisions; empty for that of `compiler.probe`.
    """

    name: str
    options: tuple[str, ...]
    scalar_type: str = "int64_t"
    answer: Answer = lambda *_: bytes(8)
    trial: str = ""

    def flags(self, base: str) -> list[str]:
        """Return the `-cc1` arguments for a channel at `base`."""
        return [word for option in channel.at_base(self.options, base) for word in ("-mllvm", option)]


INLINING = Advisor("inlining", channel.INLINING)
"""llvm/lib/Analysis/MLInlineAdvisor.cpp; one question per call site."""

EVICTION = Advisor("eviction", channel.EVICTION, answer=_last_legal)
"""llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp; which live range to evict for a candidate."""

PRIORITY = Advisor("priority", channel.PRIORITY, scalar_type="float", answer=lambda *_: struct.pack("<f", 1.0))
"""llvm/lib/CodeGen/MLRegAllocPriorityAdvisor.cpp; the place of a live range in the allocation queue."""

ADVISORS = (INLINING, EVICTION, PRIORITY)
"""All of them, in the order in which clang opens their channels."""


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
    """Return the column that LLVM's own eviction heuristic would choose, as far as the features show it.

    The original is DefaultEvictionAdvisor::tryFindEvictionCandidate (llvm/lib/CodeGen/RegAllocEvictionAdvisor.cpp).
    It uses two facts that the features do not show, so the rule is close to it and not exact. The manual page of
    `RegAllocEvict` counts the functions for which the rule gives clang's own code.

    - Weights are divided by the largest of all columns. A live range that must not be spilled has an infinite weight,
      and every finite weight becomes 0. Then no column looks lighter than the candidate, and the rule evicts nothing. A
      sixth of the decisions of the builtin corpus are such cases; the choice is mostly clang's own.
    - If a free register costs more than others, clang looks for a cheaper one. Then it breaks no hint and evicts
      nothing local. The features do not show such a search.

    Each feature has one element per column: first the positions of the allocation order, last the candidate itself,
    which means no eviction. `broken_hints`, `urgent` and `weight` are the features `nr_broken_hints`, `nr_urgent` and
    `use_def_density`, the largest spill weight, each divided by its largest; a weight of NaN is infinite. The `ratio`
    is the maximum weight of the live ranges to evict, relative to the candidate; 1 in LLVM.
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
