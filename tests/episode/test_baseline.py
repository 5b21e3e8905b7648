"""The baseline, the result of the compiler's own heuristic, is compiled once."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym.compiler.coroutine import run_blocking
from mlgo_gym.corpus.compilation import Compilation, plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.baseline import keep_baseline, known_baseline, measure_baseline
from mlgo_gym.episode.decision_count import count, known_decisions
from mlgo_gym.errors import CompilerError
from mlgo_gym.llvm.estimated_instructions import FunctionInstructions
from mlgo_gym.llvm.object_file import ObjectSizes
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain
from mlgo_gym.tasks.measurement import Measurement
from tests.conftest import MakeBitcode

pytestmark = pytest.mark.usefixtures("nothing_is_left")

FLAGS = ("-cc1", "-triple", "x86_64-unknown-linux-musl", "-emit-obj", "-Oz")


@pytest.fixture
def counted(counted_clang: tuple[Path, Path], calls: Path, own_cache: Path) -> tuple[Compilation, Path]:
    """A compile whose starts are counted in a file."""
    program, starts = counted_clang
    compilation = plan(Module("calls", calls, FLAGS), find_toolchain(str(program)))
    starts.write_text("")
    return compilation, starts


def test_a_module_is_measured_once_and_again_for_a_record_of_another_release(
    counted: tuple[Compilation, Path], own_cache: Path
) -> None:
    compilation, starts = counted
    first = measure_baseline(compilation, 30)
    assert measure_baseline(compilation, 30) == first
    assert starts.read_text() == "started\n"
    (record,) = own_cache.joinpath("baselines").rglob("*.json")
    record.write_text('{"size": 3}')
    assert known_baseline(compilation) is None
    assert measure_baseline(compilation, 30) == first


def test_a_baseline_without_the_record_is_none_with_it(
    make_bitcode: MakeBitcode, toolchain: Toolchain, own_cache: Path
) -> None:
    compilation = plan(Module("spills", make_bitcode("spills.c"), FLAGS), toolchain)
    assert measure_baseline(compilation, 30).allocation == {}
    assert measure_baseline(compilation, 30, optimization_record=True).allocation


@pytest.mark.parametrize("estimated", [False, True])
def test_a_measurement_comes_back_as_it_was_kept(counted: tuple[Compilation, Path], estimated: bool) -> None:
    estimate = {"f": FunctionInstructions(0.1, 2e300)} if estimated else None
    measurement = Measurement(ObjectSizes(1, 2, 3, 4), instructions=estimate)
    keep_baseline(counted[0], measurement)
    assert known_baseline(counted[0]) == measurement


def test_a_failing_compile_is_no_baseline(broken: Path, compile_calls: Compilation, own_cache: Path) -> None:
    failing = plan(Module("broken", broken, FLAGS), compile_calls.toolchain)
    with pytest.raises(CompilerError) as caught:
        measure_baseline(failing, 30)
    assert caught.value.kind == "exit"
    assert known_baseline(failing) is None


def test_decisions_are_counted_once(counted: tuple[Compilation, Path]) -> None:
    compilation, starts = counted
    task = InlineEnv(clang=compilation.toolchain.command[0]).task
    starts.write_text("")
    assert known_decisions(compilation, task) is None
    assert [sum(run_blocking(count(compilation, task), 30).values()) for _ in range(2)] == [9, 9]
    assert starts.read_text() == "started\n"
