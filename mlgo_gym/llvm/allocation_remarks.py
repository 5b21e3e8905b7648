"""What register allocation cost one function, as clang's remarks on standard error tell it as soon as they can.

The optimisation record is written when the compile ends. Remarks are written at once and have the same numbers: one for
each loop, then one that sums up the function; none where nothing was spilled, reloaded or copied
(llvm/lib/CodeGen/RegAllocGreedy.cpp, RAGreedy::reportStats). The size of the stack frame, which every function has,
follows (llvm/lib/CodeGen/PrologEpilogInserter.cpp), before code generation turns to the next function.
"""

from __future__ import annotations

import re
from collections import Counter

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
"""What clang says of a function once its registers are allocated."""

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
            f"clang was to say what its register allocation cost with {' '.join(REMARK_FLAGS)}, and did not: leave out "
            f'scope="function" for this module; standard error ends with {text[-500:]!r}'
        )
    summaries = _SUMMARY.findall(_COLOUR.sub("", remarks))
    if not summaries:
        return NOTHING
    counts: Counter[str] = Counter()
    costs = dict.fromkeys(_KINDS.values(), 0.0)
    rest = _FREE.sub("", summaries[-1])
    try:
        for count, name, cost in _COST.findall(rest):
            counts[_KINDS[name]] += int(count)
            costs[_KINDS[name]] += finite(cost)
    except ValueError as error:
        raise MlgoError(f"a remark on register allocation was to give numbers: {error}") from None
    if _COST.sub("", rest).strip():
        raise MlgoError(f"a remark on register allocation was to give counts and costs: {summaries[-1]!r}")
    return AllocationCosts(
        counts["spills"],
        costs["spills"],
        counts["reloads"],
        costs["reloads"],
        counts["folded_reloads"],
        costs["folded_reloads"],
        counts["copies"],
        costs["copies"],
    )
