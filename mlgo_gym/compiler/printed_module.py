"""The code of a module as clang prints it, and the functions and calls in it."""

from __future__ import annotations

import copy
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from mlgo_gym.compiler.callee_features import DISCARDABLE, EXTERNAL, INTERNAL
from mlgo_gym.compiler.inlining_output import CONTEXT_FLAGS, function_facts
from mlgo_gym.compiler.printed_blocks import block_facts, split_blocks

INITIAL, BEFORE, LEFT = "initial", "before", "left"
"""States of code: at the start of the inliner, before the latest visit of the inliner, after it and simplified."""

PARSE_FLAGS = ("-mllvm", "-allow-incomplete-ir")
"""The `-cc1` arguments with which clang 18 or newer parses `DecisionIR.text`."""

MODULE_FLAGS = (*CONTEXT_FLAGS, "-mllvm", "-print-after=inline", "-mllvm", "-print-module-scope")
"""The `-cc1` arguments that print the module when the inliner starts, then `MODULE_END`."""

MODULE_END = "*** IR Dump After InlinerPass on "

_INTRINSIC = "llvm."
_RUNS, _MOST = 1000, 10**9
"""Runs of a caller that the frequency of a call is for, and the largest frequency: columns are whole numbers."""

_NAME = r'@("[^"]*"|[-\w.$]+)'
_SYMBOL = re.compile(_NAME)
_ESCAPE = re.compile(rb"\\(?:(\\)|([0-9A-F]{2}))")
_FUNCTION = re.compile(r"^(?:; Function Attrs: [^\n]*\n)?define [^\n]*\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
_DECLARATION = re.compile(r"^declare [^@\n]*" + _NAME, re.MULTILINE)
_GLOBAL = re.compile(rf"^{_NAME} = [^\n]*", re.MULTILINE)
_ALIAS = re.compile(_NAME + r" = (?:[\w()]+ )*alias ")
_TYPE = re.compile(r'^(%(?:"[^"]*"|[-\w.$]+)) = type [^\n]*\n', re.MULTILINE)
_TYPE_NAME = re.compile(r'%(?:"[^"]*"|[-\w.$]+)')
_COMDAT = re.compile(r" comdat(?:\(\$(?:\"[^\"]*\"|[-\w.$]+)\))?")


@dataclass(frozen=True)
class PrintedFunction:
    """A function as clang printed it.

    Attributes:
        code: Its code.
        state: `INITIAL`, `BEFORE` or `LEFT`.
        row: Its node without uses, by column.
        calls: Direct calls by callee, without intrinsics.
        uses: References to other symbols by name, direct calls included.
        callees: Callees of the direct calls in order, with intrinsics.
        call_lines: Index of the line of each of these calls.
    """

    code: str
    state: str
    row: Mapping[str, int]
    calls: Mapping[str, int]
    uses: Mapping[str, int]
    callees: tuple[str, ...]
    call_lines: tuple[int, ...]

    @classmethod
    def parse(cls, code: str, state: str) -> tuple[str, PrintedFunction]:
        """Return the name of the function in some code, and the function."""
        name, linkage, instructions, blocks, callees, lines = function_facts(code)
        row = {"linkage": linkage, "instructions": instructions, "blocks": blocks, "left": state == LEFT}
        uses = Counter(map(symbol_name, _SYMBOL.findall(code)))
        uses[name] -= 1
        calls = Counter(callee for callee in callees if not callee.startswith(_INTRINSIC))
        return name, cls(code, state, row, calls, +uses, callees, lines)

    @cached_property
    def edges(self) -> dict[str, dict[str, int]]:
        """The edge to each of `calls` by column."""
        positions: dict[str, list[int]] = {callee: [] for callee in self.calls}
        for position, callee in enumerate(self.callees):
            if callee in positions:
                positions[callee].append(position)
        return {callee: {"calls": len(found), **self.place(found)} for callee, found in positions.items()}

    def place(self, positions: Sequence[int]) -> dict[str, int]:
        """Return the place of some of `callees` by column of an edge."""
        depths, frequencies = zip(*(self._sites[position] for position in positions), strict=True)
        frequency = min(round(_RUNS * sum(frequencies)), _MOST)
        return {"position": positions[0] + 1, "loop_depth": max(depths), "frequency": frequency}

    @cached_property
    def _sites(self) -> list[tuple[int, float]]:
        """The loops around each of `callees`, and its estimated executions when the function runs once."""
        body = self.code.partition("define ")[2].partition("\n")[2]
        blocks = split_blocks(body)
        facts = block_facts(blocks)
        lines = (code.count("\n") for _, code in blocks)
        starts = list(accumulate(lines, initial=self.code.count("\n") - body.count("\n")))
        return [facts[bisect_right(starts, line) - 1] for line in self.call_lines]

    def call_line(self, callee: str, position: int) -> str:
        """Return the line of the direct call at a position, or of the first one if that has another callee."""
        if self.callees[position : position + 1] != (callee,):
            if callee not in self.callees:
                return ""
            position = self.callees.index(callee)
        return self.code.split("\n")[self.call_lines[position]].strip()


class PrintedModule:
    """The code of a module as far as clang has printed it; `text` is that of the whole module at the start."""

    def __init__(self, text: str) -> None:
        self.functions: dict[str, PrintedFunction] = {}
        self.types = {match[1]: match[0] for match in _TYPE.finditer(text)}
        self.globals = {symbol_name(match[1]): match[0] for match in _GLOBAL.finditer(text)}
        self._callers: dict[str, dict[str, None]] = {}
        self.uses: Counter[str] = Counter()
        self.aliases: dict[str, str] = {}
        for name, line in self.globals.items():
            symbols = [*map(symbol_name, _SYMBOL.findall(line)[1:])]
            self.uses.update(symbols)
            if symbols and _ALIAS.match(line):
                self.aliases[name] = symbols[0]
        self._declared = [
            name for name in map(symbol_name, _DECLARATION.findall(text)) if not name.startswith(_INTRINSIC)
        ]
        self.read(text, INITIAL, ())

    def read(self, text: str, state: str, inlined: Container[str]) -> None:
        """Replace the functions in a text; those that clang then drops leave."""
        for match in _FUNCTION.finditer(text):
            name, function = PrintedFunction.parse(match[0], state)
            before = self._remove(name)
            self.functions[name] = function
            self.uses.update(function.uses)
            for callee in function.calls:
                self._callers.setdefault(callee, {})[name] = None
            self._drop_unused(before, inlined)

    def _remove(self, name: str) -> Mapping[str, int]:
        if (removed := self.functions.pop(name, None)) is None:
            return {}
        self.uses.subtract(removed.uses)
        for callee in removed.calls:
            self._callers[callee].pop(name, None)
        return removed.uses

    def _drop_unused(self, names: Iterable[str], inlined: Container[str]) -> None:
        """Remove unused functions among some names, as clang does: local ones, and `linkonce` ones after inlining."""
        for name in names:
            function = self.functions.get(name)
            linkage = EXTERNAL if function is None else function.row["linkage"]
            is_dropped = linkage == INTERNAL or (linkage <= DISCARDABLE and name in inlined)
            if is_dropped and not self.uses[name]:
                self._drop_unused(self._remove(name), inlined)

    def parseable(self, names: Iterable[str]) -> str:
        """Return the code of functions and the types that it uses, as a module that clang parses with `PARSE_FLAGS`."""
        codes = [self.functions[name].code for name in dict.fromkeys(names) if name in self.functions]
        code = "".join(_COMDAT.sub("", text, count=1) for text in codes)
        types: dict[str, str] = {}
        unread = [code]
        while unread:
            for name in _TYPE_NAME.findall(unread.pop()):
                if name in self.types and name not in types:
                    types[name] = self.types[name]
                    unread.append(types[name].partition("=")[2])
        used = dict.fromkeys(map(symbol_name, _SYMBOL.findall(code)))
        lines = (self.globals[name] for name in used if name in self.globals)
        symbols = [line.partition(" = ")[0] for line in lines if " thread_local" in line.partition(" global ")[0]]
        declared = (f"{name} = external thread_local global i8\n" for name in symbols)
        return "".join((*types.values(), *declared, code))

    def neighbourhood(self, start: Iterable[str], limit: int | None) -> list[str]:
        """Return up to `limit` functions, the nearest over calls first; None returns all functions of the module."""
        found = dict.fromkeys(list(dict.fromkeys(start))[:limit])
        for name in (unread := list(found)):
            function = self.functions.get(name)
            calls = () if function is None else function.calls
            aliases = (part for pair in self.aliases.items() if name in pair for part in pair)
            for other in (*calls, *self._callers.get(name, ()), *aliases):
                if limit is not None and len(found) >= limit:
                    return list(found)
                if other not in found:
                    found[other] = None
                    unread.append(other)
        if limit is None:
            of_functions = [alias for alias, name in self.aliases.items() if name in self.functions]
            found.update(dict.fromkeys((*self.functions, *self._declared, *of_functions)))
        return list(found)

    def node(self, name: str) -> dict[str, int]:
        """Return the node of a function by column, without columns of 0."""
        function, calls = self.functions.get(name), 0
        for caller in self._callers.get(name, ()):
            calls += self.functions[caller].calls[name]
        row = function.row if function is not None else {"linkage": EXTERNAL, "declared": 1} if name else {}
        return {**row, "uses": self.uses[name], "address_taken": self.uses[name] - calls}

    def copy(self) -> PrintedModule:
        """Return an independent copy."""
        copied = copy.copy(self)
        copied.functions, copied.uses = self.functions.copy(), self.uses.copy()
        copied._callers = {name: callers.copy() for name, callers in self._callers.items()}
        return copied


def symbol_name(printed: str) -> str:
    """Return the name of what LLVM prints: with special characters it is quoted, such as `"o\\22d"` for `o"d`."""
    if not printed.startswith('"'):
        return printed
    name = printed[1:-1].encode(errors="surrogateescape")
    return _ESCAPE.sub(lambda code: code[1] or bytes.fromhex(code[2].decode()), name).decode(errors="surrogateescape")
