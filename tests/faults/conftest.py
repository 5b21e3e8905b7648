"""The place where faults happen, and the watch over what they leave."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from tests.conftest import PROGRAMS, MakeBitcode
from tests.faults.hosts import Place
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
def place(make_bitcode: MakeBitcode, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A corpus, a source, and a clang that is faulty when it compiles one of them."""
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
        done = toolchain.run(words)
        assert done.returncode == 0, done.stderr
    zig, mode = bundled_command()
    clang = folder / "clang"
    compiler = Path(__file__).with_name("compiler.py")
    clang.write_text(CLANG.format(python=sys.executable, compiler=compiler, zig=zig, mode=mode))
    clang.chmod(0o755)
    return Place(str(clang), str(corpus), folder / "faulty.c")


class Faults:
    """Turns a fault on and off.

    Args:
        patch: changes the environment's variables.
        place: where it happens.
        pids: the file to which the faulty compiler writes its process ids.
    """

    def __init__(self, patch: pytest.MonkeyPatch, place: Place, pids: Path) -> None:
        self._patch = patch
        self._pids = pids
        patch.setenv("MLGO_RECORDING", str(place.source.with_name("recording.json")))
        patch.setenv("MLGO_FAULT_PIDS", str(pids))
        patch.delenv("MLGO_FAULT", raising=False)

    def begin(self, spec: str) -> None:
        """Let every compile of the faulty module go wrong."""
        self._patch.setenv("MLGO_FAULT", spec)

    def end(self) -> None:
        """Let no compile go wrong any more."""
        self._patch.delenv("MLGO_FAULT", raising=False)

    @property
    def pids(self) -> list[int]:
        """The processes of the compilers that went wrong, and those that they left behind."""
        return [int(line) for line in self._pids.read_text().split()] if self._pids.exists() else []


@pytest.fixture
def faults(place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Faults]:
    """A switch for faults; whatever happened, no process, descriptor or scratch file may be left in the end."""
    before = traces()
    switch = Faults(monkeypatch, place, tmp_path / "pids")
    yield switch
    switch.end()
    for pid in switch.pids:
        assert ends_within(pid, 5) or not alive(pid), f"process {pid} of the compiler is left"
    assert traces() == before
