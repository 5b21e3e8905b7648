"""`.ci/bare`: a PATH without compilers and build tools."""

import os
import re
import subprocess
from pathlib import Path

BARE = Path(__file__).parents[1] / ".ci" / "bare"
HIDDEN = re.compile(
    r"(clang|llvm|lld|llc|opt|gcc|g\+\+|cc|c\+\+|ld|as|ar|rustc|cargo|csmith|gdb|valgrind|qemu|cmake|ctest|ninja|meson|"
    r"ccache|wasm|zig|node)\b.*"
)


def test_a_command_runs_without_compilers_and_without_variables_that_name_one() -> None:
    variables = {**os.environ, "CC": "cc", "MLGO_CLANG": "clang"}
    command = [str(BARE), "sh", "-c", 'echo "$PATH:$CC$MLGO_CLANG"; ls "$PATH"; python3 -c "print(1)" && exit 7']
    answer = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert answer.returncode == 7, answer.stderr
    first, *programs, last = answer.stdout.split()
    path, _, named = first.partition(":")
    assert (named, last) == ("", "1")
    assert not Path(path).exists(), "its folder is removed"
    assert {"python3", "sh", "env", "ls"} < set(programs)
    assert [name for name in programs if HIDDEN.fullmatch(name)] == []
