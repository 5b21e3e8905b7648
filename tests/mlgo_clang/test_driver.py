"""Command lines that clang alone runs: links and versions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.mlgo_clang.conftest import DRIVERS, Run


def test_a_missing_linker_is_named(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project))
    result = run("-Oz", "calls.c", "-o", "program")
    assert result.returncode == 1
    assert result.stderr == (
        b"mlgo-clang: error: expected the linker ld on PATH, got none; install it, for instance with binutils or lld\n"
    )
    assert run("-Oz", "-c", "calls.c").returncode == 0
    assert run("-Oz", "-E", "calls.c").returncode == 0
    assert b"no input files" in run().stderr


def test_the_version_may_be_read_in_part() -> None:
    command = [str(DRIVERS["gcc"]), "--version"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"clang version" in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
