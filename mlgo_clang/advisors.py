"""Options of LLVM's advisors that request decisions over a channel; those that end in `=` take the channel's base."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

INLINING = ("-enable-ml-inliner=release", "-inliner-interactive-channel-base=", "-inliner-interactive-include-default")
EVICTION = ("-regalloc-enable-advisor=release", "-regalloc-evict-interactive-channel-base=")
PRIORITY = ("-regalloc-enable-priority-advisor=release", "-regalloc-priority-interactive-channel-base=")

PRINTING = ("-print-before=inline",)
"""Options that print the code that the inliner visits, to standard error."""

PRINTING_FILES = (*PRINTING, "-ir-dump-directory=")
"""The same, to files in a folder named as the base of the channel; clang has the option since version 18."""

REMARKS = ("-Rpass=inline-ml", "-Rpass-missed=inline-ml")
"""Options with which clang names the callee after each decision (llvm/lib/Analysis/MLInlineAdvisor.cpp)."""

SIZE_LIMIT = "-ml-advisor-size-increase-threshold"

WASM_SIZE_LIMIT = f"{SIZE_LIMIT}=16"
"""Option of every compile for WebAssembly with an advisor, unless the user names a limit.

The ML advisor inlines nothing more when its estimate of the module has grown so many times; by default twice. Clang's
own choices exceed that for WebAssembly. Without a limit calls in a tree of functions make a module grow exponentially.
"""


def at_base(options: Sequence[str], base: str) -> list[str]:
    """Return the options of an advisor for the channel at a base path."""
    return [option + base if option.endswith("=") else option for option in options]
