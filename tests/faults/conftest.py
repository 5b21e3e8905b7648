"""The faulty compiler, and a check that faults leave nothing."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlgo_gym.corpus.commands.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from tests.conftest import PROGRAMS, MakeBitcode
from tests.faults.hosts import FaultyCompiler
from tests.faults.recording import record
from tests.traces import alive, ends_within, traces

CLANG = """#!/bin/sh
case "$MLGO_FAULT:$*" in
:*) ;;
*faulty.bc*channel-base=*|*channel-base=*faulty.c*) exec '{python}' -I -S '{compiler}' "$@" ;;
esac
exec '{zig}' {mode} "$@"
"""


@pytest.fixture(scope="session")
def compiler(
    make_bitcode: MakeBitcode, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> FaultyCompiler:
    """A clang that fails on one module, with a corpus and a source."""
    folder = tmp_path_factory.mktemp("faults")
    bitcode = make_bitcode("calls.c")
    corpus = folder / "corpus"
    corpus.mkdir()
    for name in ("faulty", "sound"):
        shutil.copy(bitcode, corpus / f"{name}.bc")
    record(plan(Module("faulty", corpus / "faulty.bc"), toolchain), folder / "recording.json")
    for target in ("i386", "s390x"):
        path = folder / f"recording.{target}.o"
        words = [f"--target={target}-unknown-linux-musl", "-Oz", "-c", str(PROGRAMS / "calls.c"), "-o", str(path)]
        result = toolchain.run(words)
        assert result.returncode == 0, result.stderr
    zig, mode = bundled_command()
    clang = folder / "clang"
    compiler = Path(__file__).with_name("compiler.py")
    clang.write_text(CLANG.format(python=sys.executable, compiler=compiler, zig=zig, mode=mode))
    clang.chmod(0o755)
    return FaultyCompiler(str(clang), str(corpus), folder / "faulty.c")


class Faults:
    """Turns a fault on and off.

    Args:
        patch: Changes environment variables.
        compiler: The faulty compiler.
        pids: File to which it writes its process ids.
    """

    def __init__(self, patch: pytest.MonkeyPatch, compiler: FaultyCompiler, pids: Path) -> None:
        self._patch = patch
        self._pids = pids
        patch.setenv("MLGO_RECORDING", str(compiler.source.with_name("recording.json")))
        patch.setenv("MLGO_FAULT_PIDS", str(pids))
        patch.delenv("MLGO_FAULT", raising=False)

    def enable(self, spec: str) -> None:
        """Make every compile of the faulty module fail."""
        self._patch.setenv("MLGO_FAULT", spec)

    def disable(self) -> None:
        """Make no compile fail."""
        self._patch.delenv("MLGO_FAULT", raising=False)

    @property
    def pids(self) -> list[int]:
        """Process ids of the failed compilers, and of those that they left running."""
        return [int(line) for line in self._pids.read_text().split()] if self._pids.exists() else []


@pytest.fixture
def faults(compiler: FaultyCompiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Faults]:
    """A switch for faults; at the end no process, descriptor or scratch file may be left."""
    before = traces()
    switch = Faults(monkeypatch, compiler, tmp_path / "pids")
    yield switch
    switch.disable()
    for pid in switch.pids:
        assert ends_within(pid, 5) or not alive(pid), f"process {pid} of the compiler is left"
    assert traces() <= before
