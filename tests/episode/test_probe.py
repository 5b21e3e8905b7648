"""The capabilities of a clang are tested once, then cached."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.episode.setup import probe
from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command, find_toolchain

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def clang_that(tmp_path: Path, script: str) -> Toolchain:
    """Return a clang that knows its version but compiles as the script says."""
    zig, mode = bundled_command()
    path = tmp_path / "clang"
    path.write_text(f'#!/bin/sh\ncase "$*" in *--version*) exec "{zig}" {mode} "$@";; esac\n{script}\n')
    path.chmod(0o755)
    return find_toolchain(str(path))


def test_a_second_process_starts_no_clang_to_build_its_spaces(
    counted_clang: tuple[Path, Path], own_cache: Path
) -> None:
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


def test_a_clang_that_refuses_the_flags_is_reported_in_its_own_words(tmp_path: Path) -> None:
    old = clang_that(tmp_path, "echo \"Unknown command line argument '-enable-ml-inliner'\" >&2; exit 1")
    with pytest.raises(ToolchainError, match=r"clang 22\.1\.8\) to compile a tiny module .* got an error \(exit\)"):
        probe(old, INLINING)


def test_a_clang_without_the_interactive_mode_is_refused(tmp_path: Path) -> None:
    zig, mode = bundled_command()
    mute = clang_that(tmp_path, f'exec "{zig}" {mode} -cc1 -Oz -emit-obj -x c /dev/null -o -')
    with pytest.raises(
        ToolchainError, match=r"decisions of the inlining advisor of .*, got none: this build has no interactive mode"
    ):
        probe(mute, INLINING)


def test_a_clang_that_leaves_no_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="expected an ELF object"):
        probe(clang_that(tmp_path, "exit 0"), INLINING)
