"""Code sections and functions of WebAssembly files, against llvm-size and llvm-nm."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.block_frequencies import has_block_frequencies
from mlgo_gym.llvm.function_sizes import function_sizes
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.llvm.wasm_file import read_wasm, without_custom_sections

SOURCE = """
extern int elsewhere(int);
extern int table[];
static int helper(int x) { return table[x] * elsewhere(x); }
__attribute__((noinline)) int first(int x) { return helper(x) + 1; }
int second(int x) { return first(x) + first(x + 1) + helper(x); }
int third(int) __attribute__((alias("second")));
int data = 7;
"""


@pytest.fixture(scope="module", params=["-Oz", "-O0", "-g"])
def wasm(request: pytest.FixtureRequest, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An object of WebAssembly at some levels."""
    folder = tmp_path_factory.mktemp("wasm")
    source, output = folder / "source.c", folder / "object.o"
    source.write_text(SOURCE)
    options = ["--target=wasm32-unknown-wasip1", request.param, "-c", str(source), "-o", str(output)]
    result = toolchain.run(options)
    assert result.returncode == 0, result.stderr
    return output


def tool(name: str) -> str:
    found = next(filter(None, map(shutil.which, (name, f"{name}-22", f"{name}-19"))), None)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def test_the_functions_and_the_rest_are_the_code_section(wasm: Path) -> None:
    data = wasm.read_bytes()
    sizes = function_sizes(data)
    assert set(sizes.functions) >= {"first", "second"}
    assert sizes.aliases == {"third": "second"}
    assert sizes.size("third") == sizes.size("second") > sizes.size("first") > 0
    assert sum(sizes.functions.values()) + sizes.unnamed == sizes.text == object_sizes(data).text
    assert sizes.unnamed <= 5  # the number of functions
    assert object_sizes(data).object == len(data)
    assert not has_block_frequencies(data)


def test_a_file_without_custom_sections_has_the_same_code_and_no_names(wasm: Path) -> None:
    data = wasm.read_bytes()
    rest = without_custom_sections(data)
    assert len(rest) < len(data)
    assert read_wasm(rest).code == read_wasm(data).code
    assert not any(names for names, _ in read_wasm(rest).functions)


def test_the_code_section_is_that_of_llvm_size(wasm: Path) -> None:
    table = subprocess.check_output([tool("llvm-size"), "--format=berkeley", str(wasm)], text=True)
    sizes = object_sizes(wasm.read_bytes())
    assert int(table.splitlines()[1].split()[0]) == sizes.llvm_size == sizes.text


def test_the_functions_are_those_of_llvm_nm(wasm: Path) -> None:
    table = subprocess.check_output([tool("llvm-nm"), "--defined-only", str(wasm)], text=True)
    names = {line.split()[2] for line in table.splitlines() if line.split()[1] in "tT"}
    sizes = function_sizes(wasm.read_bytes())
    assert {*sizes.functions, *sizes.aliases} == names


def test_a_file_that_is_cut_off_is_an_error_or_has_less_code(wasm: Path) -> None:
    data = wasm.read_bytes()
    whole = read_wasm(data)
    errors = 0
    for end in range(len(data)):
        try:
            assert read_wasm(data[:end]).code <= whole.code
        except MlgoError as error:  # noqa: PERF203 - each end is a file of its own
            errors += 1
            assert "WebAssembly file" in str(error)  # noqa: PT017 - most ends are within a section
    assert errors > len(data) - 40


@given(st.binary(max_size=64))
def test_other_bytes_are_an_error_or_a_file(rest: bytes) -> None:
    try:
        assert read_wasm(b"\0asm\1\0\0\0" + rest).size == 8 + len(rest)
    except MlgoError as error:
        assert "WebAssembly file" in str(error)  # noqa: PT017 - some bytes are a file


def test_an_elf_object_is_no_webassembly() -> None:
    with pytest.raises(MlgoError, match=r"expected a WebAssembly file, got 8 bytes that begin with b'.*ELF'"):
        read_wasm(b"\x7fELF\2\1\1\0")


def test_code_without_names_is_a_stripped_object(wasm: Path) -> None:
    data = wasm.read_bytes()
    with pytest.raises(MlgoError, match="got a stripped one"):
        function_sizes(data.replace(b"\x07linking", b"\x07nothing").replace(b"\x04name", b"\x04nome"))
