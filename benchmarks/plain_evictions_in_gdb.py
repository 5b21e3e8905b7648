"""Runs inside gdb: writes for which registers clang's allocator asks its eviction advisor, and what that takes.

`benchmarks/plain_evictions.py` starts it. A line of JSON for each event, written before the program goes on:
`["ready"]`, it may begin; `["func"]`, a function begins; `["call", register, weight]`, the advisor is asked;
`["took", column]`, it has chosen, 32 for none.

The offsets are those of LLVM 22 on x86-64: `LiveInterval` has its register and weight at 112, `AllocationOrder` begins
with its hints, a `SmallVector`, and has the registers of the class at 56.
"""

from __future__ import annotations

import json
import os
import re
import struct
from pathlib import Path
from typing import TextIO

import gdb  # type: ignore[import-untyped]  # it is inside gdb alone

BEGIN = "llvm::VirtRegAuxInfo::calculateSpillWeightsAndHints()"
LIMIT = (
    "llvm::RegAllocEvictionAdvisor::getOrderLimit(llvm::LiveInterval const&, llvm::AllocationOrder const&, "
    "unsigned int) const"
)
CHOOSE = (
    "llvm::DefaultEvictionAdvisor::tryFindEvictionCandidate(llvm::LiveInterval const&, llvm::AllocationOrder const&, "
    "unsigned char, llvm::SmallSet<llvm::Register, 16u, std::less<llvm::Register> > const&) const"
)
NONE = 32


def value(expression: str) -> int:
    """Return the value of an expression."""
    return int(gdb.parse_and_eval(expression))


def memory(address: int, size: int) -> bytes:
    """Return bytes of the program."""
    return bytes(gdb.selected_inferior().read_memory(address, size))


def order(address: int) -> list[int]:
    """Return the registers of an allocation order, hints first."""
    hints, count, _ = struct.unpack("<QQQ", memory(address, 24))
    first = list(struct.unpack(f"<{count}H", memory(hints, 2 * count))) if count else []
    registers, count = struct.unpack("<QQ", memory(address + 56, 16))
    return first + [each for each in struct.unpack(f"<{count}H", memory(registers, 2 * count)) if each not in first]


def returns(entry: int) -> list[int]:
    """Return the addresses of return instructions behind an entry, some of them other functions'."""
    text = gdb.execute(f"x/1500i {entry}", to_string=True)
    return [int(match[1], 16) for match in re.finditer(r"(0x[0-9a-f]+)[^\n]*:\s+ret", text)]


def main(log: TextIO) -> None:
    """Follow the program to its end."""
    asked = os.environ["EVICTIONS_ASKED"] == "1"
    signals = ("handle SIGSTOP nostop noprint nopass", "handle SIGCONT nostop noprint pass")
    for command in ("set pagination off", "set confirm off", *signals):
        gdb.execute(command)
    gdb.execute("catch load libLLVM", to_string=True)
    log.write('["ready"]\n')
    gdb.execute("continue" if asked else "run", to_string=True)
    gdb.execute("delete")
    begin, call = value(f"(long)&'{BEGIN}'"), value(f"(long)&'{LIMIT if asked else CHOOSE}'")
    for address in {begin, call, *([] if asked else returns(call))}:
        gdb.execute(f"break *{address}", to_string=True)
    columns: list[int] = []
    stack = 0
    while True:
        gdb.execute("continue", to_string=True)
        if not gdb.selected_inferior().pid:
            return
        place = value("$pc")
        if place == begin:
            log.write('["func"]\n')
        elif place == call:
            register, weight = struct.unpack("<If", memory(value("$rsi") + 112, 8))
            columns, stack = order(value("$rdx")), value("$rsp")
            log.write(json.dumps(["call", register, weight]) + "\n")
        elif value("$rsp") == stack:
            taken = value("$eax") & 0xFFFFFFFF
            log.write(json.dumps(["took", columns.index(taken) if taken else NONE]) + "\n")
            stack = 0


with Path(os.environ["EVICTIONS_LOG"]).open("w", buffering=1) as file:
    main(file)
