"""The cost of register allocation per function, read from clang's optimisation record.

The record is the YAML that `-opt-record-file` writes for the pass `regalloc`; a remark `SpillReloadCopies` sums up each
function that has any cost (llvm/lib/CodeGen/RegAllocGreedy.cpp, RAGreedy::reportStats). It weights spills, reloads and
copies with static block frequencies relative to the function's entry.
"""

import math
import re
from collections.abc import Iterable

from mlgo_gym.errors import MlgoError

_REMARK = re.compile(
    r"^--- !Missed\nPass: +regalloc\nName: +SpillReloadCopies\n(?P<lines>(?:(?!\.\.\.$).*\n)*?)\.\.\.$", re.MULTILINE
)
_FUNCTION = re.compile(r"^Function: +(.+)$", re.MULTILINE)
_ARGUMENT = re.compile(r"^  - (\w+): +'([^']*)'$", re.MULTILINE)

_PRICES = {"spills": 1.0, "folded spills": 1.0, "reloads": 4.0, "folded reloads": 4.0, "copies": 0.2}
"""The weights with which LLVM scores an allocation when it trains its own policy.

They are `regalloc-store-weight`, `regalloc-load-weight` and `regalloc-copy-weight` of
llvm/lib/CodeGen/RegAllocScore.cpp.
"""


def read_allocation_record(record: bytes) -> dict[str, float]:
    """Return the weighted cost of each function that has any, by the function's name.

    Raises `MlgoError` if a remark lacks its function, a number is none, or a name is quoted otherwise than LLVM does.
    """
    costs: dict[str, float] = {}
    for remark in _REMARK.finditer(record.decode(errors="replace")):
        lines = remark["lines"]
        function = _FUNCTION.search(lines)
        if function is None:
            raise MlgoError(f"a remark of the optimisation record was to name its function: {lines[:200]!r}")
        values = dict(_ARGUMENT.findall(lines))
        numbers = {kind: values.get(f"Total{kind.title().replace(' ', '')}Cost", "0") for kind in _PRICES}
        try:
            costs[_plain(function[1])] = _weighted(numbers.items())
        except (ValueError, OverflowError) as error:
            raise MlgoError(f"expected numbers and a name in a remark of the optimisation record: {error}") from None
    return costs


def _weighted(costs: Iterable[tuple[str, str]]) -> float:
    """Return the weighted sum of costs by kind, the same in any order; `ValueError` if one is no finite number."""
    return math.fsum(_PRICES[kind] * finite(cost) for kind, cost in costs)


def finite(text: str) -> float:
    """Return the number in a text; raise `ValueError` if it is not a finite one."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"expected a finite number, got {text[:80]!r}")
    return number


_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b",
    "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_ESCAPE = re.compile(r"\\(?:x(..)|u(.{4})|U(.{8})|(.))", re.DOTALL)


def _plain(scalar: str) -> str:
    """Return the text of a YAML scalar as LLVM's writer quotes it (llvm/lib/Support/YAMLParser.cpp, yaml::escape)."""
    if scalar.startswith("'"):
        return scalar[1:-1].replace("''", "'")
    if scalar.startswith('"'):
        return _ESCAPE.sub(_unescape, scalar[1:-1])
    return scalar


def _unescape(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2] or escape[3]
    return chr(int(code, 16)) if code else _ESCAPES.get(escape[4], escape[4])


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
    r"\d+ (?:virtual registers )?(spills|folded spills|reloads|folded reloads|copies) ([-+.\w]+) total \1 cost ?"
)
_FREE = re.compile(r"\d+ zero cost folded reloads ?")


def read_allocation_remarks(text: str) -> float:
    """Return the weighted cost of a function from the remarks in standard error since a decision in it.

    Later text is ignored. Raises `MlgoError` if the function's last remark is missing, or a remark is of another form.
    """
    remarks, last, _ = text.partition(LAST_REMARK)
    if not last:
        raise MlgoError(
            f"expected the costs of register allocation from {' '.join(REMARK_FLAGS)}, got none; compile this module "
            f'without scope="function"; standard error ends with {text[-500:]!r}'
        )
    summaries = _SUMMARY.findall(_COLOUR.sub("", remarks))
    rest = _FREE.sub("", summaries[-1]) if summaries else ""
    try:
        total = _weighted(_COST.findall(rest))
    except (ValueError, OverflowError) as error:
        raise MlgoError(f"a remark on register allocation was to give numbers: {error}") from None
    if _COST.sub("", rest).strip():
        raise MlgoError(f"a remark on register allocation was to give counts and costs: {summaries[-1]!r}")
    return total
