"""`.ci/bare`: a PATH without compilers and build tools."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

BARE = Path(__file__).parents[1] / ".ci" / "bare"

HIDDEN = re.compile(
    r"(clang|llvm|lld|llc|opt|gcc|g\+\+|cc|c\+\+|ld|as|ar|rustc|cargo|csmith|gdb|valgrind|qemu|cmake|ctest|ninja|meson|"
    r"ccache|wasm|zig|node)\b.*"
)


def bare(*command: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "CC": "cc", "MLGO_CLANG": "clang"}
    return subprocess.run([str(BARE), *command], env=variables, capture_output=True, text=True, check=False)


def test_only_what_the_readme_names_is_on_the_path() -> None:
    answer = bare("sh", "-c", 'ls "$PATH"; python3 -c "print(1)"')
    assert answer.returncode == 0, answer.stderr
    programs = answer.stdout.split()
    assert {"python3", "sh", "env", "ls"} < set(programs)
    assert [name for name in programs if HIDDEN.fullmatch(name)] == []


def test_no_variable_names_a_compiler() -> None:
    assert bare("sh", "-c", 'echo "$CC$MLGO_CLANG"').stdout == "\n"


def test_it_exits_as_the_command_and_leaves_no_folder() -> None:
    answer = bare("sh", "-c", 'echo "$PATH"; exit 7')
    assert answer.returncode == 7
    assert not Path(answer.stdout.strip()).exists()
