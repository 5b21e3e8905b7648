"""The capabilities of a clang are tested once, then cached."""

import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.episode.setup import probe
from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command, find_toolchain
from tests.conftest import clang_program

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def clang_that(tmp_path: Path, script: str) -> Toolchain:
    """Return a clang that knows its version but compiles as the script says."""
    return find_toolchain(str(clang_program(tmp_path / "clang", f'case "$*" in *--version*) ;; *) {script};; esac')))


def test_a_second_process_builds_its_spaces_without_clang(counted_clang: tuple[Path, Path], own_cache: Path) -> None:
    program, starts = counted_clang
    build = (
        "from gymnasium import make\nfrom mlgo_gym.make_env import compiler_environments\n"
        f"for name in compiler_environments(): make(name, clang={str(program)!r})"
    )
    counts = []
    for _ in range(2):
        subprocess.run([sys.executable, "-c", build], check=True)
        counts.append(starts.read_text().count("started"))
    assert counts[0] > 0
    assert counts[1] == counts[0]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "echo 'Unknown command line argument' >&2; exit 1",
            r"22\.1\.8\) to compile a tiny module .* got an error \(exit\)",
        ),
        (
            'exec "{}" {} -cc1 -Oz -emit-obj -x c /dev/null -o -',
            "decisions of the inlining advisor of .*, got none: this build has no interactive mode",
        ),
        ("exit 0", "expected an ELF object"),
    ],
)
def test_a_clang_that_makes_no_decisions_or_no_object_is_refused(script: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=message):
        probe(clang_that(tmp_path, script.format(*bundled_command())), INLINING)
