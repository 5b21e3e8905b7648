"""The decision points of clang that can be asked over a channel, and the flags that switch them on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Advisor:
    """One decision point of LLVM that takes advice over two files.

    Attributes:
        name: `inlining`, `eviction` or `priority`.
        switch: the `-mllvm` options that replace clang's own advisor.
        channel: the `-mllvm` option that takes the base path of the two files.
        extras: further `-mllvm` options that are always given.
        scalar_type: the type of the answer, as the header must state it.
    """

    name: str
    switch: str
    channel: str
    extras: tuple[str, ...] = ()
    scalar_type: str = "int64_t"

    def flags(self, base: str) -> list[str]:
        """Return the `-cc1` arguments for a channel at `base`."""
        options = [self.switch, f"{self.channel}={base}", *self.extras]
        return [word for option in options for word in ("-mllvm", option)]


INLINING = Advisor(
    "inlining",
    "-enable-ml-inliner=release",
    "-inliner-interactive-channel-base",
    ("-inliner-interactive-include-default",),
)
"""llvm/lib/Analysis/MLInlineAdvisor.cpp; one question per call site."""

EVICTION = Advisor("eviction", "-regalloc-enable-advisor=release", "-regalloc-evict-interactive-channel-base")
"""llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp; which live range to evict for a candidate."""

PRIORITY = Advisor(
    "priority",
    "-regalloc-enable-priority-advisor=release",
    "-regalloc-priority-interactive-channel-base",
    scalar_type="float",
)
"""llvm/lib/CodeGen/MLRegAllocPriorityAdvisor.cpp; the place of a live range in the allocation queue."""

ADVISORS = (INLINING, EVICTION, PRIORITY)
"""All of them, in the order in which clang opens their channels."""
