"""Links, versions, folders, and the sizes of objects: what the driver shares with clang and with the package."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mlgo_clang import folders, recipes
from mlgo_clang.object_size import ObjectSizeError, text_size
from mlgo_gym.attribution import recipe
from mlgo_gym.corpus.commands.driver import NATIVE, driver_options, linker_command
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.process.scratch import scratch_parent
from mlgo_gym.storage.cache import cache_directory
from mlgo_gym.storage.temporary_folders import host_id
from tests.mlgo_clang.conftest import DRIVERS, Run


def test_a_missing_linker_is_named(run: Run, project: Path) -> None:
    path = str(project)
    result = run("-Oz", "calls.c", "-o", "program", PATH=path)
    assert result.returncode == 1
    assert result.stderr == (
        b"mlgo-clang: error: expected the linker ld on PATH, got none; install it, for instance with binutils or lld\n"
    )
    assert run("-Oz", "-c", "calls.c", PATH=path).returncode == run("-Oz", "-E", "calls.c", PATH=path).returncode == 0
    assert b"no input files" in run(PATH=path).stderr


def test_the_version_may_be_read_in_part() -> None:
    command = [str(DRIVERS["gcc"]), "--version"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"clang version" in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


def test_the_cache_and_scratch_folders_are_those_of_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert folders.cache_folder() == str(cache_directory())
    monkeypatch.setenv("MLGO_CACHE", "~/elsewhere")
    assert folders.cache_folder() == str(cache_directory())
    monkeypatch.delenv("MLGO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folders.cache_folder() == str(cache_directory()) == str(tmp_path / "mlgo-gym")
    # The package sweeps the folders of killed drivers by their names.
    folder = Path(folders.make_scratch())
    folder.rmdir()
    assert folder.parent == Path(scratch_parent())
    assert folder.name.rpartition("-")[0].endswith(f"-{host_id()}")
    assert (recipes.FIRST_LINE, recipes.SUFFIX) == (recipe.FIRST_LINE, recipe.SUFFIX)


def test_a_native_recording_uses_the_same_command(toolchain: Toolchain, clang: dict[str, list[str]]) -> None:
    for mode, language in (("gcc", "c"), ("g++", "c++")):
        assert linker_command(toolchain, language, NATIVE) == clang[mode]
    assert [word for word in clang["gcc"] if word.startswith("-")] == driver_options(toolchain, NATIVE)[0]


@pytest.mark.parametrize(
    "target", ["x86_64-linux-gnu", "i386-linux-gnu", "armeb-linux-gnueabi", "powerpc64-linux-gnu", "wasm32-wasip1"]
)
def test_objects_have_the_sizes_of_the_environments(tmp_path: Path, clang: dict[str, list[str]], target: str) -> None:
    source, output = tmp_path / "two.c", tmp_path / "two.o"
    source.write_text("int one(int n) { return n * n; }\nint table[9] = {1};\nint two(int n) { return table[n]; }\n")
    command = [*clang["gcc"], f"--target={target}", "-Os", "-ffunction-sections", "-c", str(source), "-o", str(output)]
    subprocess.run(command, check=True)
    data = output.read_bytes()
    assert text_size(str(output)) == object_sizes(data).text > 0
    if target.startswith("wasm"):
        damages = dict.fromkeys((data[:9], data[:-1], data + b"\x0a\xff"), "ends within a section")
    else:
        others = (b"", b"\xcf\xfa\xed\xfe" + data[4:], data[:40])
        damages = dict.fromkeys(others, "expected an ELF or WebAssembly object")
        damages[data[: len(data) // 2]] = "ends before its table of sections"
    for damaged, message in damages.items():
        output.write_bytes(damaged)
        with pytest.raises(ObjectSizeError, match=message):
            text_size(str(output))
