"""The faulty compiler, and a check that faults leave nothing."""

import shutil
from collections.abc import Iterator

import pytest

from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import PROGRAMS, MakeBitcode, copy_modules
from tests.fakes.compiles import FaultyClang
from tests.faults.hosts import FaultyCompiler
from tests.traces import alive, ends_within


@pytest.fixture(scope="session")
def compiler(
    make_bitcode: MakeBitcode, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory
) -> FaultyCompiler:
    """A clang that fails on one module, with a corpus and a source."""
    folder = tmp_path_factory.mktemp("faults")
    corpus = copy_modules(folder / "corpus", dict.fromkeys(("faulty", "sound"), make_bitcode("calls.c")))
    source = folder / "faulty.c"
    shutil.copy(PROGRAMS / "calls.c", source)
    programs = folder / "programs"
    programs.mkdir()
    clang = FaultyClang(programs, corpus / "faulty.bc")
    for target in ("i386", "s390x"):
        path = clang.recording.with_suffix(f".{target}.o")
        result = toolchain.run([f"--target={target}-unknown-linux-musl", "-Oz", "-c", str(source), "-o", str(path)])
        assert result.returncode == 0, result.stderr
    return FaultyCompiler(clang, str(corpus), source)


@pytest.fixture
def faults(compiler: FaultyCompiler, nothing_is_left: None) -> Iterator[FaultyClang]:
    """The switch of faults; at the end no process, descriptor or scratch file may be left."""
    compiler.clang.take_pids()
    yield compiler.clang
    compiler.clang.set_fault("")
    for pid in compiler.clang.take_pids():
        assert ends_within(pid, 5) or not alive(pid), f"process {pid} of the compiler is left"
