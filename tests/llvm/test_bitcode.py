"""The facts of bitcode, compared with clang's own textual form of it."""

from __future__ import annotations

import contextlib
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import BitcodeFacts, parse_bitcode, read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import PROGRAMS, MakeBitcode


def facts_of_text(text: str) -> tuple[str, str, int, int, int, int]:
    """Return triple, source and the numbers of functions with a body, minsize, optsize and optnone of textual IR."""
    groups = {
        number: words.split() for number, words in re.findall(r"^attributes #(\d+) = \{ (.*) \}$", text, re.MULTILINE)
    }
    defined = [groups[number] for number in re.findall(r"^define .*? #(\d+) ", text, re.MULTILINE)]
    defined += [[] for _ in re.findall(r"^define (?!.* #\d+ )", text, re.MULTILINE)]
    triple = re.search(r'^target triple = "(.*)"$', text, re.MULTILINE)
    source = re.search(r'^source_filename = "(.*)"$', text, re.MULTILINE)
    assert triple
    assert source
    counts = [sum(word in words for words in defined) for word in ("minsize", "optsize", "optnone")]
    return triple[1], source[1], len(defined), counts[0], counts[1], counts[2]


@pytest.mark.parametrize("level", ["-Oz", "-Os", "-O2", "-O0"])
def test_it_agrees_with_the_textual_form(
    any_toolchain: Toolchain, make_bitcode: MakeBitcode, tmp_path: Path, level: str
) -> None:
    bitcode = make_bitcode("calls.c", compiler=any_toolchain, optimize=level)
    listing = tmp_path / "listing.ll"
    facts = read_bitcode(bitcode)
    assert facts.functions > 0
    # Without -triple, clang replaces the module's triple with its own.
    arguments = ["-cc1", "-triple", facts.triple, "-emit-llvm", "-disable-llvm-passes", "-x", "ir", str(bitcode)]
    answer = any_toolchain.run([*arguments, "-o", str(listing)])
    assert (answer.returncode, answer.stderr) == (0, "")
    found = (facts.triple, facts.source_filename, facts.functions, facts.minsize, facts.optsize, facts.optnone)
    assert found == facts_of_text(listing.read_text())
    assert facts.producer == f"LLVM{any_toolchain.version_text}"


@pytest.mark.parametrize(("level", "shown"), [("-Oz", "Oz"), ("-Os", "Os"), ("-O2", "O1-O3"), ("-O0", "O0")])
def test_the_level_is_what_the_attributes_show(make_bitcode: MakeBitcode, level: str, shown: str) -> None:
    assert read_bitcode(make_bitcode("calls.c", optimize=level)).level == shown


def facts(**counts: int) -> BitcodeFacts:
    return BitcodeFacts("", "", "", **{"functions": 2, "minsize": 0, "optsize": 0, "optnone": 0, **counts}, language="")


def test_a_module_with_several_levels_is_mixed_and_one_without_functions_has_none() -> None:
    assert facts(minsize=1, optsize=1).level == "mixed"
    assert facts(minsize=1, optsize=2).level == "Os"
    assert facts(functions=0).level == "no functions"


def test_sections_debug_information_and_odd_names_are_no_obstacle(toolchain: Toolchain, tmp_path: Path) -> None:
    bitcode = tmp_path / "odd.bc"
    arguments = ["-cc1", "-emit-llvm-bc", "-disable-llvm-passes", "-x", "ir", str(PROGRAMS / "odd_names.ll")]
    answer = toolchain.run([*arguments, "-o", str(bitcode)])
    assert answer.returncode == 0, answer.stderr
    text = (PROGRAMS / "odd_names.ll").read_text()
    assert read_bitcode(bitcode).functions == len(re.findall(r"^define ", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("suffix", "flags", "language"),
    [("c", [], "C"), ("cpp", [], "C++"), ("m", [], "Objective-C"), ("i", [], ""), ("ii", [], "C++")],
)
def test_the_language_is_guessed_from_the_source_or_the_names(
    toolchain: Toolchain, tmp_path: Path, suffix: str, flags: list[str], language: str
) -> None:
    source, bitcode = tmp_path / f"x.{suffix}", tmp_path / "x.bc"
    source.write_text("int twice(int x) { return 2 * x; }\n")
    answer = toolchain.run([*flags, "-c", "-emit-llvm", str(source), "-o", str(bitcode)])
    assert answer.returncode == 0, answer.stderr
    assert read_bitcode(bitcode).language == language


def test_wrapped_bitcode_is_read_as_what_is_in_it(calls: Path, tmp_path: Path) -> None:
    data = calls.read_bytes()
    wrapped = struct.pack("<IIIII", 0x0B17C0DE, 0, 20, len(data), 7) + data + bytes(12)
    (tmp_path / "wrapped.bc").write_bytes(wrapped)
    assert read_bitcode(tmp_path / "wrapped.bc") == read_bitcode(calls)


@pytest.mark.parametrize("data", [b"", b"BC", b"BC\xc0\xde", b"\x7fELF" + bytes(60), b"\xde\xc0\x17\x0b", bytes(100)])
def test_what_is_no_bitcode_is_an_error_that_names_the_file(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "odd.bc").write_bytes(data)
    with pytest.raises(CorpusError, match=r"odd\.bc: expected LLVM bitcode"):
        read_bitcode(tmp_path / "odd.bc")


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"none\.bc"):
        read_bitcode(tmp_path / "none.bc")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_bitcode_that_is_cut_off_is_an_error(calls: Path, part: float) -> None:
    data = calls.read_bytes()
    with pytest.raises(CorpusError, match="cut off"):
        parse_bitcode(data[: int(len(data) * part)], "cut.bc")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_bitcode_gives_facts_or_one_kind_of_error(calls: Path, data: st.DataObject) -> None:
    content = bytearray(calls.read_bytes())
    for position in data.draw(st.lists(st.integers(4, len(content) - 1), min_size=1, max_size=8)):
        content[position] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(CorpusError):
        assert isinstance(parse_bitcode(bytes(content), "damaged.bc"), BitcodeFacts)
