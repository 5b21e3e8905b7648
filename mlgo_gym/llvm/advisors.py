"""The decision points of clang that can be asked over a channel, and the flags that switch them on."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mlgo_clang import advisors
from mlgo_clang.advisors import at_base
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
        name: `inlining`, `eviction` or `priority`.
        options: the `-mllvm` options that replace clang's own advisor; those that end in `=` take the base path of the
            two files.
        scalar_type: the type of the answer, as the header must state it.
        answer: any legal answer to a question, for the trial of a clang: it takes the header of the channel and the
            bytes of the observation, and returns those of an advice tensor.
        trial: textual IR, read by every clang, that makes it ask; empty: the module of `mlgo_gym.episode.probe`.
    """

    name: str
    options: tuple[str, ...]
    scalar_type: str = "int64_t"
    answer: Answer = lambda *_: bytes(8)
    trial: str = ""

    def flags(self, base: str) -> list[str]:
        """Return the `-cc1` arguments for a channel at `base`."""
        return [word for option in at_base(self.options, base) for word in ("-mllvm", option)]


INLINING = Advisor("inlining", advisors.INLINING)
"""llvm/lib/Analysis/MLInlineAdvisor.cpp; one question per call site."""

EVICTION = Advisor("eviction", advisors.EVICTION, answer=_last_legal)
"""llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp; which live range to evict for a candidate."""

PRIORITY = Advisor("priority", advisors.PRIORITY, scalar_type="float", answer=lambda *_: struct.pack("<f", 1.0))
"""llvm/lib/CodeGen/MLRegAllocPriorityAdvisor.cpp; the place of a live range in the allocation queue."""

ADVISORS = (INLINING, EVICTION, PRIORITY)
"""All of them, in the order in which clang opens their channels."""
