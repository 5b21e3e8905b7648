"""Fixtures for every test: a cache, compilers, and small programs as bitcode."""

import gc
import os
import resource
import shlex
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from mlgo_gym.corpus.compilation import Compilation, plan
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command, find_toolchain
from mlgo_gym.policies.network import Network
from mlgo_gym.scheduling import FileStore
from tests.traces import traces

PROGRAMS = Path(__file__).parent / "programs"

MakeBitcode = Callable[..., Path]

# A busy machine may take any time for one example; pytest-timeout limits the whole test.
settings.register_profile("without deadlines", settings(), deadline=None)
settings.load_profile("without deadlines")


# A shell that runs the tests in the background makes its children ignore these signals, and theirs inherit that.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


def pytest_collection_finish() -> None:
    """Exclude the objects of imports from every later garbage collection: they are most of what it would visit."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache folder for all workers of this run."""
    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "cache"
    os.environ["MLGO_CACHE"] = str(folder)
    os.environ.pop("MLGO_CLANG", None)
    # multiprocessing keeps this process to the end of the program; no test is to leak it.
    resource_tracker.ensure_running()
    return folder


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for one test."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MLGO_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def toolchain(cache: Path) -> Toolchain:
    """The bundled clang."""
    return find_toolchain("bundled")


CLANG, *OTHER_CLANGS = os.environ.get("MLGO_TEST_CLANGS", "bundled,clang-19,clang-22").split(",")
"""Clangs that the tests of compilers run with, of which all but the first are slow; `nox` sets others."""


@pytest.fixture(
    scope="session",
    params=[CLANG, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHER_CLANGS)],
    ids=lambda name: Path(name).name,
)
def any_toolchain(request: pytest.FixtureRequest, cache: Path) -> Toolchain:
    """Each installed clang in turn."""
    name: str = request.param
    if name != "bundled" and shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return find_toolchain(name)


@contextmanager
def limited(what: int, value: int) -> Iterator[None]:
    """Lower a resource limit of this process."""
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))


def write_program(path: Path, text: str) -> Path:
    """Write the text of a shell script as a program; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def clang_program(path: Path, statement: str) -> Path:
    """Write a program that runs a statement of the shell and then the bundled clang; return its path."""
    return write_program(path, f'{statement}\nexec {shlex.join(bundled_command())} "$@"')


def failing_clang(folder: Path, failing: str) -> str:
    """Write a program that runs the bundled clang; of its starts with a channel some fail, such as `2|5`."""
    starts = folder / "starts"
    starts.write_text("")
    count = f'echo started >> "{starts}"; case $(grep -c . "{starts}") in {failing}) exit 9;; esac'
    return str(clang_program(folder / "clang", f'case "$*" in *interactive-channel*) {count};; esac'))


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    """Write text files by their path below a folder; return the folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def copy_modules(folder: Path, modules: Mapping[str, Path]) -> Path:
    """Copy bitcode into a folder by the names of modules; return the folder."""
    for name, bitcode in modules.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(bitcode, folder / f"{name}.bc")
    return folder


def clang_argument(toolchain: Toolchain) -> str:
    """Return the argument `clang` of an environment that compiles with a toolchain."""
    return "bundled" if toolchain.bundled else toolchain.command[0]


@pytest.fixture(scope="session")
def make_bitcode(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> MakeBitcode:
    """Return a function that compiles a program of `tests/programs`, or any C source, to unoptimised bitcode.

    Equal requests share one compile; each returns a new file.
    """
    made: dict[tuple[str, bytes, str, str], Path] = {}

    def make(
        source: str | Path,
        *,
        compiler: Toolchain = toolchain,
        triple: str = "x86_64-unknown-linux-musl",
        optimize: str = "-Oz",
    ) -> Path:
        path = PROGRAMS / source
        bitcode = tmp_path_factory.mktemp("bitcode") / f"{path.stem}.bc"
        key = (str(path), path.read_bytes(), f"{compiler.identity} {triple}", optimize)
        if key in made:
            shutil.copy(made[key], bitcode)
            return bitcode
        front_end = ["-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
        result = compiler.run([f"--target={triple}", optimize, *front_end, str(path), "-o", str(bitcode)])
        assert result.returncode == 0, result.stderr
        made[key] = bitcode.with_suffix(".kept")
        shutil.copy(bitcode, made[key])
        return bitcode

    return make


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileStore]:
    """A file store in a separate temporary folder, as on another machine."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "elsewhere"))
    store = FileStore()
    yield store
    store.close()


@pytest.fixture(scope="session")
def calls(make_bitcode: MakeBitcode) -> Path:
    """The bitcode of a module with nine decisions."""
    return make_bitcode("calls.c")


@pytest.fixture(scope="session")
def leaf(make_bitcode: MakeBitcode) -> Path:
    """The bitcode of a module without any decision."""
    return make_bitcode("leaf.c")


@pytest.fixture(scope="session")
def families(make_bitcode: MakeBitcode) -> Path:
    """The bitcode of a module whose decisions depend on each other."""
    return make_bitcode("families.c")


@pytest.fixture(scope="session")
def broken(calls: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bitcode with a damaged function: clang cannot read it."""
    path = tmp_path_factory.mktemp("bitcode") / "broken.bc"
    data = calls.read_bytes()
    middle = len(data) // 8 * 4
    path.write_bytes(data[:middle] + b"\xff" * 32 + data[middle + 32 :])
    return path


@pytest.fixture(scope="session")
def callee_network(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A policy with callee features: a network that inlines calls of a cost below 5, and last calls below 905."""
    path = tmp_path_factory.mktemp("network") / "callee.safetensors"
    weights, biases = (np.array([[-1], [900]], np.float32),), (np.array([5], np.float32),)
    Network(("cost_estimate", "callee_last"), weights, biases).save(path)
    return f"mlp:{path}"


@pytest.fixture(scope="session")
def compile_calls(calls: Path, toolchain: Toolchain) -> Compilation:
    """The bundled clang's compile of the module with nine decisions."""
    return plan(Module("calls", calls), toolchain)


@pytest.fixture(scope="session")
def corpus(calls: Path, leaf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the modules `calls`, `more/calls` of the same bitcode, and `leaf`, which has no decision."""
    return copy_modules(tmp_path_factory.mktemp("corpus"), {"calls": calls, "more/calls": calls, "leaf": leaf})


@pytest.fixture(scope="session")
def varied(make_bitcode: MakeBitcode, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of five modules: three with decisions for every task, one for inlining alone, one for none."""
    folder = tmp_path_factory.mktemp("varied")
    for program in ("many_calls.c", "mixed.c", "calls.c", "leaf.c"):
        shutil.copy(make_bitcode(program), folder)
    shutil.copy(folder / "mixed.bc", folder / "again.bc")
    return str(folder)


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """Fail a test that leaves a process, a descriptor or a scratch folder behind."""
    # A failed call of an earlier test may hold its objects in a cycle.
    gc.collect()
    before = traces()
    yield
    assert traces() <= before


@pytest.fixture
def counted_clang(tmp_path: Path) -> tuple[Path, Path]:
    """A program that runs the bundled clang, and the file to which it appends a line at each start."""
    starts = tmp_path / "starts"
    starts.touch()
    return clang_program(tmp_path / "counted-clang", f'echo started >> "{starts}"'), starts
