"""Optimise once: objects are the same from optimised bitcode as in full."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_gym.compiler.coroutine import run_blocking
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus.compilation import Compilation, plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.episode.preoptimization import preoptimize
from mlgo_gym.errors import CompilerError
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain
from tests.conftest import MakeBitcode

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


def test_a_module_is_optimised_once_per_compiler_flags_and_content(
    counted_clang: tuple[Path, Path], calls: Path, own_cache: Path
) -> None:
    program, starts = counted_clang
    toolchain = find_toolchain(str(program))
    full = plan(Module("calls", calls), toolchain)
    before = starts.read_text().count("started")
    first = preoptimized(full)
    assert starts.read_text().count("started") == before + 1
    assert preoptimized(full) == first
    assert starts.read_text().count("started") == before + 1
    other_flags = preoptimized(plan(Module("calls", calls), toolchain, ["-ffunction-sections"]))
    assert starts.read_text().count("started") == before + 2
    assert other_flags.module.bitcode != first.module.bitcode
    assert first.module.bitcode.is_file()


def test_a_module_that_clang_cannot_read_is_its_error(
    broken: Path, compile_calls: Compilation, own_cache: Path
) -> None:
    unreadable = replace(compile_calls, module=Module("broken", broken), inputs=("-x", "ir", str(broken)))
    with pytest.raises(CompilerError, match="Invalid encoding"):
        preoptimized(unreadable)
    assert not [*own_cache.glob("optimized/*/*")]
