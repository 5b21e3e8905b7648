"""The facts of bitcode, compared with clang's own textual form of it."""

import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import parse_bitcode, read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import MakeBitcode


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


@pytest.mark.parametrize(("flag", "level"), [("-Oz", "Oz"), ("-Os", "Os"), ("-O2", "O1-O3"), ("-O0", "O0")])
def test_the_facts_and_the_level_agree_with_the_textual_form(
    any_toolchain: Toolchain, make_bitcode: MakeBitcode, tmp_path: Path, flag: str, level: str
) -> None:
    bitcode = make_bitcode("calls.c", compiler=any_toolchain, optimize=flag)
    listing = tmp_path / "listing.ll"
    facts = read_bitcode(bitcode)
    assert facts.functions > 0
    # Without -triple, clang replaces the module's triple with its own.
    words = ["-cc1", "-triple", facts.triple, "-emit-llvm", "-disable-llvm-passes", "-x", "ir", str(bitcode)]
    answer = any_toolchain.run([*words, "-o", str(listing)])
    assert (answer.returncode, answer.stderr) == (0, "")
    read = (facts.triple, facts.source_filename, facts.functions, facts.minsize, facts.optsize, facts.optnone)
    assert read == facts_of_text(listing.read_text())
    assert (facts.producer, facts.level) == (f"LLVM{any_toolchain.version_text}", level)
    for name, (functions, minsize, optsize) in {"mixed": (2, 1, 1), "Os": (2, 1, 2), "no functions": (0, 0, 0)}.items():
        assert replace(facts, functions=functions, minsize=minsize, optsize=optsize, optnone=0).level == name


def test_the_language_is_guessed_from_the_source_or_the_names(toolchain: Toolchain, tmp_path: Path) -> None:
    for suffix, language in {"c": "C", "cpp": "C++", "i": "", "ii": "C++"}.items():
        source, bitcode = tmp_path / f"x.{suffix}", tmp_path / "x.bc"
        source.write_text("int twice(int x) { return 2 * x; }\n")
        assert toolchain.run(["-c", "-emit-llvm", str(source), "-o", str(bitcode)]).returncode == 0
        assert read_bitcode(bitcode).language == language


def test_wrapped_bitcode_is_read_and_other_files_are_an_error_that_names_the_file(calls: Path, tmp_path: Path) -> None:
    for data in (b"", b"BC", b"BC\xc0\xde", b"\x7fELF" + bytes(60), b"\xde\xc0\x17\x0b", bytes(100)):
        (tmp_path / "odd.bc").write_bytes(data)
        with pytest.raises(CorpusError, match=r"odd\.bc: expected LLVM bitcode"):
            read_bitcode(tmp_path / "odd.bc")
    with pytest.raises(CorpusError, match=r"none\.bc"):
        read_bitcode(tmp_path / "none.bc")
    data = calls.read_bytes()
    wrapped = struct.pack("<IIIII", 0x0B17C0DE, 0, 20, len(data), 7) + data + bytes(12)
    assert parse_bitcode(wrapped, "wrapped.bc") == parse_bitcode(data, "calls.bc") == read_bitcode(calls)
    for part in (0.1, 0.5, 0.9):
        with pytest.raises(CorpusError, match="cut off"):
            parse_bitcode(data[: int(len(data) * part)], "cut.bc")
