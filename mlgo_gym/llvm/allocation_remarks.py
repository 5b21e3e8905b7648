"""The costs of register allocation of one function, read from clang's remarks on standard error.

The optimisation record is written when the compile ends. Remarks are written at once and have the same numbers: one for
each loop, then one that sums up the function; none where nothing was spilled, reloaded or copied
(llvm/lib/CodeGen/RegAllocGreedy.cpp, RAGreedy::reportStats). The size of the stack frame, which every function has,
follows (llvm/lib/CodeGen/PrologEpilogInserter.cpp), before code generation turns to the next function.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.allocation_record import NOTHING, AllocationCosts, finite

REMARK_FLAGS = (
    "-Rpass-missed=regalloc",
    "-Rpass-analysis=prologepilog",
    "-fmessage-length=0",
    "-fno-caret-diagnostics",
)
"""The `-cc1` arguments that have clang write these remarks, whole and without the source that they are about."""

LAST_REMARK = " stack bytes in function"
"""The remark that clang writes when the registers of a function are allocated."""

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_SUMMARY = re.compile(r": ([^:\n]*) generated in function")
_COST = re.compile(
    r"(\d+) (spills|folded spills|reloads|folded reloads|virtual registers copies)"
    r" ([-+.\w]+) total (?:\2|copies) cost ?"
)
_FREE = re.compile(r"\d+ zero cost folded reloads ?")
_KINDS = {
    "spills": "spills",
    "folded spills": "spills",
    "reloads": "reloads",
    "folded reloads": "folded_reloads",
    "virtual registers copies": "copies",
}


def read_allocation_remarks(text: str) -> AllocationCosts:
    """Return the costs of the function whose remarks a text holds; what follows the last of them is ignored.

    Args:
        text: standard error from a decision in the function on.

    Raises:
        MlgoError: the function's last remark is missing, or a remark is of another form.
    """
    remarks, last, _ = text.partition(LAST_REMARK)
    if not last:
        raise MlgoError(
            f"expected the costs of register allocation from {' '.join(REMARK_FLAGS)}, got none; compile this module "
            f'without scope="function"; standard error ends with {text[-500:]!r}'
        )
    summaries = _SUMMARY.findall(_COLOUR.sub("", remarks))
    if not summaries:
        return NOTHING
    totals: dict[str, Any] = defaultdict(int)
    rest = _FREE.sub("", summaries[-1])
    try:
        for count, name, cost in _COST.findall(rest):
            totals[_KINDS[name]] += int(count)
            totals[f"{_KINDS[name]}_cost"] += finite(cost)
    except ValueError as error:
        raise MlgoError(f"a remark on register allocation was to give numbers: {error}") from None
    if _COST.sub("", rest).strip():
        raise MlgoError(f"a remark on register allocation was to give counts and costs: {summaries[-1]!r}")
    return AllocationCosts(**totals)
