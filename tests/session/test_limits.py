"""What a compile may take: it fails alone, in its own words, and nobody else notices."""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from mlgo_gym.session.limits import Limits
from mlgo_gym.session.process import CompilerProcess
from mlgo_gym.session.session import Session

HUGE = """
char huge[30UL << 30] = {1};
static int callee(int x) { return x * 3; }
int caller(int x) { return callee(x) + callee(x + 1); }
"""
"""A module whose object has 30 GB."""

WIDE = "\n".join(
    f"static long f{n}(long x, long *p) {{ for (long i = 0; i < x; i++) p[i] = p[i + {n}] * x + {n}; return x; }}"
    f"long g{n}(long x, long *p) {{ return f{n}(x, p) + f{n}(x + {n}, p) * p[0]; }}"
    for n in range(3000)
)
"""A module that takes over 100 MB beyond what clang needs by itself."""


@pytest.fixture(scope="module")
def huge(make_bitcode: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("huge") / "huge.c"
    source.write_text(HUGE)
    return make_bitcode(source)


@pytest.fixture(scope="module")
def wide(make_bitcode: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("wide") / "wide.c"
    source.write_text(WIDE)
    return make_bitcode(source)


def failure_of(bitcode: Path, toolchain: Toolchain, limits: Limits) -> CompilerError:
    compilation = plan(Module(bitcode.stem, bitcode), toolchain, limits=limits)
    with Session(compilation.command, limits=compilation.limits) as session, pytest.raises(CompilerError) as caught:
        session.finish(60)
    return caught.value


def test_memory_beyond_the_limit_is_an_error_with_the_compilers_words(wide: Path, toolchain: Toolchain) -> None:
    error = failure_of(wide, toolchain, Limits(memory=0.24))
    assert error.kind == "limit"
    assert error.message == "clang was to need at most 0.24 GiB of memory (memory_limit), and needed more"
    assert "bad_alloc" in error.stderr or "out of memory" in error.stderr


def test_an_object_beyond_the_limit_is_never_held_in_memory(huge: Path, toolchain: Toolchain) -> None:
    error = failure_of(huge, toolchain, Limits(memory=0.5))
    assert error.kind == "limit"
    assert error.message == "clang was to write at most 0.5 GiB (memory_limit), and its output is larger"


def test_a_module_that_needs_too_much_fails_alone(huge: Path, calls: Path, tmp_path: Path) -> None:
    for bitcode in (huge, calls):
        (tmp_path / bitcode.name).write_bytes(bitcode.read_bytes())
    result = evaluate("mlgo/Inline-v0", corpus=str(tmp_path), policies=["never"], env_kwargs={"memory_limit": 0.5})
    assert [(each.module, each.status) for each in result.episodes if each.status == "done"] == [("calls", "done")]
    [failure] = result.failures
    assert failure.module == "huge"
    assert failure.error is not None
    assert failure.error["kind"] == "limit"


def test_processor_time_beyond_the_limit_ends_a_process_and_is_said() -> None:
    limits = Limits(processor=1)
    with open("/dev/null", "wb") as nowhere:  # noqa: PTH123 - a descriptor is wanted
        process = CompilerProcess.start(
            [sys.executable, "-c", "while True: pass"],
            stdout=nowhere.fileno(),
            stderr=nowhere.fileno(),
            limits=limits,
        )
    try:
        while process.poll() is None:
            signal.sigtimedwait([signal.SIGCHLD], 0.05)
        assert process.exit_status == -signal.SIGXCPU
        assert limits.exceeded(process.exit_status, "") == (
            "clang was to need at most 1 s of processor time (cpu_limit), and needed more"
        )
    finally:
        process.close()


def test_no_limit_is_none_and_one_that_holds_already_is_never_raised() -> None:
    with open("/dev/null", "wb") as nowhere:  # noqa: PTH123 - a descriptor is wanted
        null = nowhere.fileno()
        process = CompilerProcess.start(["/bin/sleep", "60"], stdout=null, stderr=null, limits=Limits(None, None))
    try:
        assert resource.prlimit(process.pid, resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
        Limits(0.5, 10).impose(process.pid)
        Limits(8, 20).impose(process.pid)
        assert resource.prlimit(process.pid, resource.RLIMIT_AS) == (1 << 29, 1 << 29)
        assert resource.prlimit(process.pid, resource.RLIMIT_CPU) == (10, 15)
    finally:
        process.close()


@pytest.mark.parametrize(
    ("limit", "kind"), [({"cpu_limit": 1}, "limit"), ({"timeout": 1.0}, "timeout")], ids=["processor time", "silence"]
)
def test_a_corpus_with_a_module_that_never_ends_is_finished(
    calls: Path, tmp_path: Path, limit: dict[str, Any], kind: str
) -> None:
    zig, mode = bundled_command()
    program = tmp_path / "clang"
    program.write_text(f'#!/bin/sh\ncase "$*" in */endless.bc*) while :; do :; done;; esac\nexec "{zig}" {mode} "$@"\n')
    program.chmod(0o755)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for name in ("calls", "endless"):
        (corpus / f"{name}.bc").write_bytes(calls.read_bytes())
    result = evaluate(
        "mlgo/Inline-v0", corpus=str(corpus), policies=["never"], env_kwargs={"clang": str(program), **limit}
    )
    assert [(each.module, each.status) for each in result.episodes if each.status == "done"] == [("calls", "done")]
    [failure] = result.failures
    assert failure.module == "endless"
    assert failure.error is not None
    assert failure.error["kind"] == kind


@pytest.mark.parametrize("arguments", [{"memory_limit": 0}, {"cpu_limit": -1}])
def test_limits_are_positive(corpus: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(MlgoError, match=r"(memory_limit|cpu_limit) must be a positive number or None, found"):
        gym.make("mlgo/Inline-v0", corpus=corpus, **arguments)
