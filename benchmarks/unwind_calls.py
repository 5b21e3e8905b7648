"""Forbids inlining of the calls that only unwinding reaches, in the text of a module.

`benchmarks/exactness.py` uses this to test one cause of exceptions. If the inliner finds that a callee cannot throw,
it turns the `invoke` into a call, and the landing pad stays unreachable until the function is simplified. Clang's own
inliner inlines the calls there; the ML advisor neither inlines them nor requests decisions
(`getSkipAdviceIfUnreachableCallsite()` in LLVM's MLInlineAdvisor.cpp).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

_DEFINITION = re.compile(r"^define .*?^\}\n", re.MULTILINE | re.DOTALL)
_LABEL = re.compile(r"^([-\w.$\"]+):")
_TARGET = re.compile(r"label (%[-\w.$\"]+)")
_UNWIND = re.compile(r"unwind label %[-\w.$\"]+")
_NAME = r"@(?!llvm\.)(?:\"[^\"]+\"|[-\w.$]+)"
_CALL = re.compile(
    rf"^(\s+(?:%\S+ = )?(?:tail |notail )?(?:call|invoke) .*?{_NAME}\(.*\))"  # up to the arguments
    r"( #\d+)?((?:, !.*)?)$"  # attributes and metadata
)
_GROUP = re.compile(r"^attributes (#\d+) = \{(.*)\}$", re.MULTILINE)
_FIRST_NEW = 1_000_000


def forbid_unwind_calls(text: str) -> tuple[str, int]:
    """Make the calls that only unwinding reaches `noinline`; return the new text and the number of calls."""
    groups = dict(_GROUP.findall(text))
    renamed: dict[str, str] = {}
    count = 0

    def forbid(line: str) -> str:
        nonlocal count
        call = _CALL.match(line)
        if call is None:
            return line
        count += 1
        group = (call[2] or "").strip()
        return f"{call[1]} {renamed.setdefault(group, f'#{_FIRST_NEW + len(renamed)}')}{call[3]}"

    def change(definition: re.Match[str]) -> str:
        lines = definition[0].split("\n")
        blocks: list[tuple[str, list[str]]] = [("", [])]
        for line in lines:
            label = _LABEL.match(line)
            if label:
                blocks.append((f"%{label[1]}", []))
            blocks[-1][1].append(line)
        # The entry block has no name, or one of rustc's: then only the line of the definition is before it.
        entry = blocks[1][0] if len(blocks[0][1]) == 1 else ""
        reached = {"", *_reached(entry, dict(blocks))}
        return "\n".join(line if name in reached else forbid(line) for name, block in blocks for line in block)

    changed = _DEFINITION.sub(change, text)
    attributes = (f"attributes {new} = {{ {groups.get(old, '')} noinline }}\n" for old, new in renamed.items())
    return changed + "".join(attributes), count


def _reached(entry: str, blocks: dict[str, list[str]]) -> set[str]:
    """Return the blocks that the entry block reaches without unwinding."""
    reached: set[str] = set()
    pending = [entry]
    while pending:
        name = pending.pop()
        if name in reached or name not in blocks:
            continue
        reached.add(name)
        pending += _TARGET.findall(_UNWIND.sub("", "\n".join(blocks[name])))
    return reached


def forbid_in_bitcode(bitcode: Path, folder: Path, version: str) -> tuple[Path, int] | None:
    """Write a copy of a module with those calls forbidden.

    Args:
        bitcode: the module.
        folder: folder of the copy.
        version: major version of the `llvm-dis-VERSION` and `llvm-as-VERSION` to run.

    Returns:
        The copy and the number of calls; None if one of the two tools is not installed.
    """
    disassembler, assembler = (shutil.which(f"llvm-{tool}-{version}") for tool in ("dis", "as"))
    if disassembler is None or assembler is None:
        return None
    text = subprocess.run([disassembler, bitcode, "-o", "-"], capture_output=True, text=True, check=True).stdout
    changed, count = forbid_unwind_calls(text)
    path = folder / "forbidden.bc"
    subprocess.run([assembler, "-", "-o", path], input=changed, text=True, check=True)
    return path, count
