"""The costs of register allocation per function, read from clang's optimisation record.

The record is the YAML that `-opt-record-file` writes for the pass `regalloc`; a remark `SpillReloadCopies` sums up each
function that has any cost (llvm/lib/CodeGen/RegAllocGreedy.cpp, RAGreedy::reportStats). Costs are weighted with static
block frequencies relative to the function's entry.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

from mlgo_gym.errors import MlgoError

_REMARK = re.compile(
    r"^--- !Missed\nPass: +regalloc\nName: +SpillReloadCopies\n(?P<lines>(?:(?!\.\.\.$).*\n)*?)\.\.\.$", re.MULTILINE
)
_FUNCTION = re.compile(r"^Function: +(.+)$", re.MULTILINE)
_ARGUMENT = re.compile(r"^  - (\w+): +'([^']*)'$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class AllocationCosts:
    """The counts and the frequency-weighted costs of one function's allocation.

    Folded spills count as spills: both store.
    """

    spills: int = 0
    spills_cost: float = 0.0
    reloads: int = 0
    reloads_cost: float = 0.0
    folded_reloads: int = 0
    folded_reloads_cost: float = 0.0
    copies: int = 0
    copies_cost: float = 0.0

    @property
    def count(self) -> int:
        """The number of spills, reloads and folded reloads."""
        return self.spills + self.reloads + self.folded_reloads

    @property
    def cost(self) -> float:
        """The sum with which LLVM scores an allocation when it trains its own policy: a spill counts 1, a reload 4.

        The weights are `regalloc-store-weight`, `regalloc-load-weight` and `regalloc-copy-weight` of
        llvm/lib/CodeGen/RegAllocScore.cpp.
        """
        return self.spills_cost + 4 * (self.reloads_cost + self.folded_reloads_cost) + 0.2 * self.copies_cost

    @classmethod
    def total(cls, costs: Iterable[AllocationCosts]) -> AllocationCosts:
        """Return the sum of the costs of several functions; it does not depend on their order."""
        columns = zip(*map(astuple, costs), strict=True)
        sums: list[Any] = [(math.fsum if place % 2 else sum)(column) for place, column in enumerate(columns)]
        return cls(*sums)


NOTHING = AllocationCosts()
"""Costs of a function without a remark: no spill, no reload, no copy."""

_SOURCES = {
    "spills": ("NumSpills", "NumFoldedSpills"),
    "spills_cost": ("TotalSpillsCost", "TotalFoldedSpillsCost"),
    "reloads": ("NumReloads",),
    "reloads_cost": ("TotalReloadsCost",),
    "folded_reloads": ("NumFoldedReloads",),
    "folded_reloads_cost": ("TotalFoldedReloadsCost",),
    "copies": ("NumVRCopies",),
    "copies_cost": ("TotalCopiesCost",),
}


def read_allocation_record(record: bytes) -> dict[str, AllocationCosts]:
    """Return the costs of each function that has any, by the function's name.

    Raises `MlgoError` if a remark lacks its function, a number is none, or a name is quoted otherwise than LLVM does.
    """
    costs: dict[str, AllocationCosts] = {}
    for remark in _REMARK.finditer(record.decode(errors="replace")):
        lines = remark["lines"]
        function = _FUNCTION.search(lines)
        if function is None:
            raise MlgoError(f"a remark of the optimisation record was to name its function: {lines[:200]!r}")
        values = dict(_ARGUMENT.findall(lines))
        try:
            numbers: dict[str, Any] = {
                name: sum(finite(values[source]) for source in sources if source in values)
                for name, sources in _SOURCES.items()
            }
            counts = {name: int(number) for name, number in numbers.items() if not name.endswith("_cost")}
            costs[_plain(function[1])] = AllocationCosts(**{**numbers, **counts})
        except (ValueError, OverflowError) as error:
            raise MlgoError(f"expected numbers and a name in a remark of the optimisation record: {error}") from None
    return costs


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
