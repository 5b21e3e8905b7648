"""What clang's driver would run: the `-cc1` command line that `-###` prints."""

from __future__ import annotations

from collections.abc import Sequence

from mlgo_gym.corpus.shim_compiles import cc1_lines
from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.toolchain import Toolchain


def cc1_line(toolchain: Toolchain, arguments: Sequence[str]) -> list[str]:
    """Return the one `-cc1` command line, from `-cc1` on, that a driver makes of its arguments.

    Args:
        toolchain: the clang, whose command is the driver.
        arguments: a compile of one file; nothing is compiled.

    Raises:
        ToolchainError: the driver refuses the arguments, or would run another number of compiles.
    """
    answer = toolchain.run([*arguments, "-###"])
    lines = cc1_lines(answer.stderr)
    if answer.returncode != 0 or len(lines) != 1:
        raise ToolchainError(
            f"clang's driver was to accept the arguments {' '.join(arguments)} and to compile one file; it said:\n"
            f"{answer.stderr.strip()[-4000:]}"
        )
    return lines[0]
