"""What episodes share: probes, baselines, headers of channels, optimised bitcode, waiting clangs."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from mlgo_gym.compiler.coroutine import run_blocking
from mlgo_gym.compiler.probe import probe
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus import Module, open_corpus
from mlgo_gym.corpus.compilation import Compilation, plan
from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.baseline import count, known_decisions, measure_baseline, preoptimize
from mlgo_gym.errors import CompilerError, ToolchainError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command, find_toolchain
from tests.conftest import MakeBitcode, clang_program

pytestmark = pytest.mark.usefixtures("nothing_is_left")

FLAGS = ("-cc1", "-triple", "x86_64-unknown-linux-musl", "-emit-obj", "-Oz")


@pytest.fixture
def counted(counted_clang: tuple[Path, Path], calls: Path, own_cache: Path) -> tuple[Compilation, Path]:
    """A compile whose starts are counted in a file."""
    program, starts = counted_clang
    compilation = plan(Module("calls", calls, FLAGS), find_toolchain(str(program)))
    starts.write_text("")
    return compilation, starts


def test_a_module_is_measured_again_for_an_unknown_record(counted: tuple[Compilation, Path], own_cache: Path) -> None:
    compilation, starts = counted
    first = measure_baseline(compilation, 30)
    assert measure_baseline(compilation, 30) == first
    assert starts.read_text() == "started\n"
    (record,) = own_cache.joinpath("baselines").rglob("*.json")
    record.write_text('{"size": 3}')
    assert measure_baseline(compilation, 30) == first


def test_a_record_needs_a_baseline_of_its_own(make_bitcode: MakeBitcode, toolchain: Toolchain, own_cache: Path) -> None:
    compilation = plan(Module("spills", make_bitcode("spills.c"), FLAGS), toolchain)
    assert measure_baseline(compilation, 30).allocation == {}
    assert measure_baseline(compilation, 30, optimization_record=True).allocation


def test_a_failing_compile_is_no_baseline(broken: Path, compile_calls: Compilation, own_cache: Path) -> None:
    failing = plan(Module("broken", broken, FLAGS), compile_calls.toolchain)
    for _ in range(2):
        with pytest.raises(CompilerError) as caught:
            measure_baseline(failing, 30)
        assert caught.value.kind == "exit"


def test_decisions_are_counted_once(counted: tuple[Compilation, Path]) -> None:
    compilation, starts = counted
    task = InlineEnv(clang=compilation.toolchain.command[0]).task
    starts.write_text("")
    assert known_decisions(compilation, task) is None
    assert [sum(run_blocking(count(compilation, task), 30).values()) for _ in range(2)] == [9, 9]
    assert starts.read_text() == "started\n"


TIMEOUT = 60.0

SLOW = {"kernels/keccak", "kernels/switchvm"}
"""Modules that take seconds each; skipped unless they are asked for."""


def object_of(compilation: Compilation) -> bytes:
    with Session(compilation.command) as session:
        return session.finish(TIMEOUT).object_bytes


def preoptimized(compilation: Compilation) -> Compilation:
    return run_blocking(preoptimize(compilation), TIMEOUT)


def differing(modules: Iterable[Module], toolchain: Toolchain) -> list[str]:
    compilations = [plan(module, toolchain) for module in modules]
    assert compilations
    return [full.module.name for full in compilations if object_of(preoptimized(full)) != object_of(full)]


@pytest.mark.parametrize("step", [20, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_builtin_objects_are_the_same_byte_for_byte(step: int, toolchain: Toolchain) -> None:
    modules = [module for module in open_corpus("builtin", toolchain=toolchain) if module.name not in SLOW]
    assert differing(modules[::step], toolchain) == []


@pytest.mark.parametrize("program", ["spills.c", "many_calls.c", "sections.c"])
def test_that_holds_for_every_clang(program: str, any_toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    module = Module("module", make_bitcode(program, compiler=any_toolchain))
    assert differing([module], any_toolchain) == []


def test_a_module_is_optimised_once_per_compile(counted_clang: tuple[Path, Path], calls: Path, own_cache: Path) -> None:
    program, starts = counted_clang
    toolchain = find_toolchain(str(program))
    full = plan(Module("calls", calls), toolchain)
    before = starts.read_text().count("started")
    first = preoptimized(full)
    assert starts.read_text().count("started") == before + 1
    assert preoptimized(full) == first
    assert starts.read_text().count("started") == before + 1
    other_flags = preoptimized(plan(Module("calls", calls), toolchain, ["-disable-llvm-passes"]))
    assert starts.read_text().count("started") == before + 2
    assert other_flags.module.bitcode != first.module.bitcode
    assert first.module.bitcode.is_file()


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
    script = script.format(*bundled_command())
    clang = clang_program(tmp_path / "clang", f'case "$*" in *--version*) ;; *) {script};; esac')
    with pytest.raises(ToolchainError, match=message):
        probe(find_toolchain(str(clang)), INLINING)
