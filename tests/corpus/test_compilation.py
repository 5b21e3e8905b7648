"""The compile of a module: command line, limits and cache key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_gym.corpus.compilation import Compilation, default_flags, plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import CorpusError, MlgoError, ToolchainError
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain
from tests.conftest import MakeBitcode
from tests.corpus.untrusted import BENIGN


def test_a_module_is_compiled_for_its_own_triple(toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    for machine, number in (("x86_64", 62), ("aarch64", 183)):
        triple = f"{machine}-unknown-linux-musl"
        compilation = plan(Module("calls", make_bitcode("calls.c", triple=triple)), toolchain)
        assert following(compilation.flags, "-triple") == triple
        assert int.from_bytes(compiled(compilation)[18:20], "little") == number


def following(words: tuple[str, ...], word: str) -> str:
    return words[words.index(word) + 1]


def compiled(compilation: Compilation) -> bytes:
    with compilation.session() as session:
        return session.finish(30).object_bytes


def test_a_module_without_flags_is_compiled_as_its_attributes_show_and_position_independent(
    toolchain: Toolchain, make_bitcode: MakeBitcode
) -> None:
    for recorded, level in (("-Oz", "-Oz"), ("-Os", "-Os"), ("-O3", "-O2")):
        module = Module("calls", make_bitcode("calls.c", optimize=recorded))
        flags = plan(module, toolchain).flags
        assert default_flags(module) == (level, "-fPIC")
        assert (flags[0], level in flags) == ("-cc1", True)
        assert (following(flags, "-mrelocation-model"), following(flags, "-pic-level")) == ("pic", "2")


def test_driver_flags_are_expanded_as_the_driver_does(calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    path = tmp_path / "driver.o"
    flags = ("-O2", "-march=x86-64-v3", "-fno-pic")
    result = toolchain.run(
        ["--target=x86_64-unknown-linux-musl", *flags, "-c", "-x", "ir", str(calls), "-o", str(path)]
    )
    assert result.returncode == 0
    assert compiled(plan(Module("calls", calls, flags), toolchain)) == path.read_bytes()


def test_special_characters_in_flags_survive_the_driver_and_flags_that_embed_bitcode_are_dropped(
    calls: Path, toolchain: Toolchain
) -> None:
    odd = """-fdebug-prefix-map=$(SRC)/a "b" \\c 'd'=e"""
    assert odd in plan(Module("calls", calls, ("-Oz", "-Xclang", odd)), toolchain).flags
    flags = (*BENIGN, "-mllvm", "-lto-embed-bitcode=post-merge-pre-opt", "-fembed-bitcode=all")
    assert plan(Module("m", calls, flags), toolchain).flags == (*BENIGN, "-w")


def test_additions_before_the_input_win_as_behind_it_in_ml_compiler_opt(calls: Path, toolchain: Toolchain) -> None:
    recorded, extra = ("-cc1", "-emit-obj", "-Oz"), ("-O0", "-ffunction-sections")
    module = Module("calls", calls, recorded)
    upstream = Compilation(toolchain, module, (*recorded, "-w", "-x", "ir", str(calls), *extra), ())
    assert compiled(plan(module, toolchain, extra)) == compiled(upstream)
    assert compiled(plan(module, toolchain)) != compiled(upstream)


def test_placeholders_missing_bitcode_and_flags_that_the_driver_refuses_are_errors(
    calls: Path, toolchain: Toolchain, tmp_path: Path
) -> None:
    cases: list[tuple[Module, type[MlgoError], str]] = [
        (Module("calls", calls, ("<UNSPECIFIED>",)), CorpusError, "global_command_override"),
        (Module("m", tmp_path / "m.bc"), CorpusError, r"m\.bc: expected the bitcode of a module"),
        (Module("m", calls, ("-Oz", "-no-such"), trusted=True), ToolchainError, "unknown argument: '-no-such'"),
    ]
    for module, error, message in cases:
        with pytest.raises(error, match=message):
            plan(module, toolchain)


def test_the_driver_is_asked_once_per_flags_and_compiler(
    counted_clang: tuple[Path, Path], calls: Path, own_cache: Path
) -> None:
    program, starts = counted_clang
    toolchain = find_toolchain(str(program))
    before = starts.read_text().count("started")
    for _ in range(2):
        plan(Module("calls", calls, ("-O1",)), toolchain)
    assert starts.read_text().count("started") == before + 1


def test_a_summary_index_goes_with_the_input(calls: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    index = tmp_path / "calls.thinlto.bc"
    index.write_bytes(b"index")
    recorded = ("-cc1", "-emit-obj", "-fthinlto-index=old")
    compilation = plan(Module("calls", calls, recorded, thinlto_index=index), toolchain)
    assert "-fthinlto-index=old" not in compilation.flags
    assert f"-fthinlto-index={index}" in compilation.inputs
    assert "-thinlto-assume-merged" in compilation.inputs


def test_all_that_decides_the_result_decides_the_key_and_name_and_path_do_not(
    calls: Path, leaf: Path, toolchain: Toolchain, counted_clang: tuple[Path, Path], tmp_path: Path
) -> None:
    index, moved = tmp_path / "index", tmp_path / "moved.bc"
    index.write_bytes(b"index")
    moved.write_bytes(calls.read_bytes())
    module = Module("calls", calls, ("-cc1", "-emit-obj"))
    keys = [
        plan(module, toolchain).key(),
        plan(replace(module, bitcode=leaf), toolchain).key(),
        plan(replace(module, flags=("-cc1", "-emit-obj", "-O1")), toolchain).key(),
        plan(module, toolchain, ["-O1"]).key(),
        plan(replace(module, thinlto_index=index), toolchain).key(),
        plan(replace(module, thinlto_index=moved), toolchain).key(),
        plan(module, find_toolchain(str(counted_clang[0]))).key(),
        plan(module, toolchain).key("more"),
    ]
    assert len(set(keys)) == len(keys)
    assert plan(replace(module, name="moved", bitcode=moved), toolchain).key() == keys[0]
