"""The costs of register allocation per function, read from clang's optimisation record.

The record is the YAML that `-opt-record-file` writes for the pass `regalloc`; a remark `SpillReloadCopies` sums up each
function that has any cost (llvm/lib/CodeGen/RegAllocGreedy.cpp, RAGreedy::reportStats). Costs are weighted with static
block frequencies relative to the function's entry.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mlgo_gym.errors import MlgoError

_REMARK = re.compile(
    r"^--- !Missed\nPass: +regalloc\nName: +SpillReloadCopies\n(?P<lines>(?:(?!\.\.\.$).*\n)*?)\.\.\.$", re.MULTILINE
)
_FUNCTION = re.compile(r"^Function: +(.+)$", re.MULTILINE)
_ARGUMENT = re.compile(r"^  - (\w+): +'([^']*)'$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CostWeights:
    """The weight of one unit of each cost.

    The defaults are those with which LLVM scores an allocation when it trains its own policy
    (llvm/lib/CodeGen/RegAllocScore.cpp: `regalloc-store-weight` 1, `regalloc-load-weight` 4, `regalloc-copy-weight`
    0.2): a spill stores, a reload loads, and a folded one does so inside another instruction.
    """

    spill: float = 1.0
    reload: float = 4.0
    folded_reload: float = 4.0
    copy: float = 0.2


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

    def cost(self, weights: CostWeights) -> float:
        """Return the weighted sum of the costs."""
        return (
            weights.spill * self.spills_cost
            + weights.reload * self.reloads_cost
            + weights.folded_reload * self.folded_reloads_cost
            + weights.copy * self.copies_cost
        )

    @classmethod
    def total(cls, costs: Iterable[AllocationCosts]) -> AllocationCosts:
        """Return the sum of the costs of several functions, the same in whatever order they come."""
        every = list(costs)
        sums: dict[str, Any] = {
            name: (math.fsum if name.endswith("_cost") else sum)(getattr(one, name) for one in every)
            for name in _SOURCES
        }
        return cls(**sums)


NOTHING = AllocationCosts()
"""A function of which the record says nothing: no spill, no reload, no copy."""

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

    Args:
        record: the YAML that clang wrote.

    Raises:
        MlgoError: a remark lacks its function, a number is none, or a name is quoted otherwise than LLVM does.
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
    """Return the number that a text states.

    Raises:
        ValueError: the text is not a finite number.
    """
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
