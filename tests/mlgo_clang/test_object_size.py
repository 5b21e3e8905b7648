"""The driver measures objects as the environments do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mlgo_clang.object_size import ObjectSizeError, text_size
from mlgo_gym.llvm.object_file import object_sizes

TARGETS = ["x86_64-linux-gnu", "i386-linux-gnu", "armeb-linux-gnueabi", "powerpc64-linux-gnu", "wasm32-wasip1"]


@pytest.mark.parametrize("target", TARGETS)
def test_bytes_of_instructions_are_those_of_the_environments(
    tmp_path: Path, clang: dict[str, list[str]], target: str
) -> None:
    source, output = tmp_path / "two.c", tmp_path / "two.o"
    source.write_text("int one(int n) { return n * n; }\nint table[9] = {1};\nint two(int n) { return table[n]; }\n")
    command = [*clang["gcc"], f"--target={target}", "-Os", "-ffunction-sections", "-c", str(source), "-o", str(output)]
    subprocess.run(command, check=True)
    assert text_size(str(output)) == object_sizes(output.read_bytes()).text > 0


def test_an_incomplete_object_is_refused(tmp_path: Path, clang: dict[str, list[str]]) -> None:
    source, output = tmp_path / "one.c", tmp_path / "one.o"
    source.write_text("int one(int n) { return n * n; }\n")
    subprocess.run([*clang["gcc"], "-Os", "-c", str(source), "-o", str(output)], check=True)
    data = output.read_bytes()
    for damaged in (b"", b"\xcf\xfa\xed\xfe" + data[4:], data[:40]):
        output.write_bytes(damaged)
        with pytest.raises(ObjectSizeError, match="expected an ELF or WebAssembly object"):
            text_size(str(output))
    output.write_bytes(data[:-64])
    with pytest.raises(ObjectSizeError, match="ends before its table of sections"):
        text_size(str(output))


def test_an_incomplete_webassembly_object_is_refused(tmp_path: Path, clang: dict[str, list[str]]) -> None:
    output = tmp_path / "one.o"
    command = [*clang["gcc"], "--target=wasm32-wasip1", "-Os", "-c", "-x", "c", "-", "-o", str(output)]
    subprocess.run(command, input=b"int one(int n) { return n * n; }\n", check=True)
    data = output.read_bytes()
    for damaged in (data[:9], data[:-1], data + b"\x0a\xff"):
        output.write_bytes(damaged)
        with pytest.raises(ObjectSizeError, match="ends within a section"):
            text_size(str(output))
