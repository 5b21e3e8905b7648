"""Forbid the inlining of every call that is only reached by unwinding, in the text of a module.

The experiment behind an exception of `docs/exactness.md`. Where the inliner finds that a callee cannot throw, it makes
the `invoke` a call, and nothing reaches the landing pad any more until the function is simplified. Clang's own inliner
still inlines the calls there; the ML advisor neither inlines them nor asks (`getSkipAdviceIfUnreachableCallsite()` in
LLVM's MLInlineAdvisor.cpp). With those calls forbidden to both, what is left of a difference has another cause.
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
    """Return the text of a module whose calls that are only reached by unwinding are `noinline`, and how many."""
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
        reached = _reached(dict(blocks))
        return "\n".join(line if name in reached else forbid(line) for name, own in blocks for line in own)

    changed = _DEFINITION.sub(change, text)
    attributes = (f"attributes {new} = {{ {groups.get(old, '')} noinline }}\n" for old, new in renamed.items())
    return changed + "".join(attributes), count


def _reached(blocks: dict[str, list[str]]) -> set[str]:
    """Return the blocks that are reached from the entry, which has no name, without unwinding."""
    reached: set[str] = set()
    left = [""]
    while left:
        name = left.pop()
        if name in reached or name not in blocks:
            continue
        reached.add(name)
        left += _TARGET.findall(_UNWIND.sub("", "\n".join(blocks[name])))
    return reached


def forbid_in_bitcode(bitcode: Path, folder: Path, version: str) -> tuple[Path, int] | None:
    """Return such a module as bitcode in a folder, and how many calls there are; None without LLVM's tools.

    Args:
        bitcode: the module.
        folder: where the other one is written.
        version: which `llvm-dis-VERSION` and `llvm-as-VERSION` can read it.
    """
    dis, made = (shutil.which(f"llvm-{tool}-{version}") for tool in ("dis", "as"))
    if dis is None or made is None:
        return None
    text = subprocess.run([dis, bitcode, "-o", "-"], capture_output=True, text=True, check=True).stdout
    changed, count = forbid_unwind_calls(text)
    path = folder / "forbidden.bc"
    subprocess.run([made, "-", "-o", path], input=changed, text=True, check=True)
    return path, count
