"""Code sections and functions of WebAssembly files."""

from __future__ import annotations

from pathlib import Path

import pytest

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


@pytest.fixture(params=["-Oz", "-g"])
def wasm(request: pytest.FixtureRequest, toolchain: Toolchain, tmp_path: Path) -> Path:
    """An object of WebAssembly."""
    source, output = tmp_path / "source.c", tmp_path / "object.o"
    source.write_text(SOURCE)
    options = ["--target=wasm32-unknown-wasip1", request.param, "-c", str(source), "-o", str(output)]
    result = toolchain.run(options)
    assert result.returncode == 0, result.stderr
    return output


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
    rest = without_custom_sections(data)
    assert len(rest) < len(data)
    assert read_wasm(rest).code == read_wasm(data).code
    assert not any(names for names, _ in read_wasm(rest).functions)


def test_another_incomplete_or_stripped_file_is_refused(wasm: Path) -> None:
    data = wasm.read_bytes()
    code, errors = read_wasm(data).code, 0
    for end in range(len(data)):
        try:
            assert read_wasm(data[:end]).code <= code
        except MlgoError as error:  # noqa: PERF203 - each end is a file of its own
            errors += 1
            assert "WebAssembly file" in str(error)  # noqa: PT017 - most ends are within a section
    assert errors > len(data) - 40
    with pytest.raises(MlgoError, match=r"expected a WebAssembly file, got 8 bytes that begin with b'.*ELF'"):
        read_wasm(b"\x7fELF\2\1\1\0")
    with pytest.raises(MlgoError, match="got a stripped one"):
        function_sizes(data.replace(b"\x07linking", b"\x07nothing").replace(b"\x04name", b"\x04nome"))
