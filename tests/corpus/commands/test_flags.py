"""Adding, deleting and replacing flags."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mlgo_gym.corpus.commands import flags as flags_module
from mlgo_gym.corpus.commands.flags import arity, edit_flags, split_flags, take_thinlto_index
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain

LINE = ("-cc1", "-triple", "x86_64-linux", "-Oz", "-emit-obj", "-mllvm", "-inline-threshold=5", "-fvisibility=hidden")


def test_added_flags_come_last() -> None:
    assert edit_flags(LINE, add=["-mllvm", "-x"]) == (*LINE, "-mllvm", "-x")


def test_deleting_a_boolean_flag_spares_its_neighbour() -> None:
    assert edit_flags(LINE, delete=["-Oz"]) == tuple(word for word in LINE if word != "-Oz")


def test_deleting_a_flag_takes_its_value_with_it() -> None:
    assert edit_flags(LINE, delete=["-triple"]) == ("-cc1", *LINE[3:])


def test_deleting_a_joined_flag_takes_only_itself() -> None:
    assert edit_flags(LINE, delete=["-fvisibility"]) == LINE[:-1]


def test_deleting_an_llvm_flag_takes_its_mllvm_with_it() -> None:
    assert edit_flags(LINE, delete=["-inline-threshold"]) == (*LINE[:5], "-fvisibility=hidden")


def test_deleting_takes_every_occurrence_separate_or_joined() -> None:
    line = ("-cc1", "-I", "a", "-Ib", "-O2", "-I", "c")
    assert edit_flags(line, delete=["-I"]) == ("-cc1", "-O2")


def test_deleting_a_name_spares_longer_names() -> None:
    line = ("-cc1", "-target-cpu", "x86-64", "-target-abi", "x")
    assert edit_flags(line, delete=["-target"]) == line


def test_deleting_an_absent_flag_changes_nothing() -> None:
    assert edit_flags(LINE, delete=["-g"]) == LINE


@pytest.mark.parametrize(
    ("name", "value", "before", "after"),
    [
        ("-triple", "riscv64", ("-triple", "x86_64-linux"), ("-triple", "riscv64")),
        ("-O", "2", ("-Oz",), ("-O2",)),
        ("-fvisibility", "default", ("-fvisibility=hidden",), ("-fvisibility=default",)),
        ("-inline-threshold", "9", ("-mllvm", "-inline-threshold=5"), ("-mllvm", "-inline-threshold=9")),
    ],
)
def test_replacing_keeps_the_spelling_of_the_flag(
    name: str, value: str, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    assert edit_flags(("-cc1", *before, "-w"), replace={name: value}) == ("-cc1", *after, "-w")


def test_replacing_an_absent_flag_is_an_error() -> None:
    with pytest.raises(CorpusError, match=r"expected one -mcpu to replace, got 0"):
        edit_flags(LINE, replace={"-mcpu": "x"})


def test_replacing_a_flag_that_is_there_twice_is_an_error() -> None:
    with pytest.raises(CorpusError, match="expected one -O to replace, got 2"):
        edit_flags((*LINE, "-O2"), replace={"-O": "1"})


def test_replacing_a_flag_without_a_value_is_an_error() -> None:
    with pytest.raises(CorpusError, match="expected a flag with a value"):
        edit_flags(LINE, replace={"-emit-obj": "x"})


@pytest.mark.parametrize(
    ("add", "delete", "replace"),
    [
        (["-O2"], ["-O"], {}),
        (["-triple", "x"], [], {"-triple": "y"}),
        (["-mllvm", "-inline-threshold=1"], ["-inline-threshold"], {}),
        ([], ["-fvisibility"], {"-fvisibility": "default"}),
    ],
)
def test_naming_a_flag_in_two_lists_is_an_error(add: list[str], delete: list[str], replace: dict[str, str]) -> None:
    with pytest.raises(CorpusError, match="name it once"):
        edit_flags(LINE, add=add, delete=delete, replace=replace)


def test_flags_that_miss_a_value_are_an_error() -> None:
    with pytest.raises(CorpusError, match=r"expected 1 value\(s\) after -triple"):
        split_flags(("-cc1", "-triple"))


def test_a_value_that_comes_through_a_second_xclang_stays_with_its_flag() -> None:
    line = ("-Oz", "-Xclang", "-target-feature", "-Xclang", "+avx", "-w")
    assert edit_flags(line, delete=["-target-feature"]) == ("-Oz", "-w")


@pytest.mark.parametrize(("index", "named"), [("lib/a=b.thinlto.bc", True), ("", False), ("/dev/null", False)])
def test_the_thinlto_index_is_taken_out(index: str, named: bool) -> None:
    assert take_thinlto_index(("-cc1", f"-fthinlto-index={index}", "-O2")) == (("-cc1", "-O2"), named)


def test_clang_agrees_with_the_table_of_values(any_toolchain: Toolchain) -> None:
    """Each flag alone lacks its value; those of other versions are unknown, and then arity hardly matters."""
    for flag in ("-triple", "-mllvm", "-target-cpu", "-main-file-name", "-internal-isystem", "-mrelocation-model"):
        answer = any_toolchain.run(["-cc1", flag]).stderr
        assert re.search(rf"argument to '{flag}' is missing \(expected {arity(flag)} value", answer), answer
    for flag in ("-Oz", "-emit-obj", "-disable-free", "-vectorize-slp", "-mconstructor-aliases", "-fvisibility=hidden"):
        assert arity(flag) == 0
        assert "is missing" not in any_toolchain.run(["-cc1", flag, "-version"]).stderr


def test_a_driver_line_splits_into_flags_that_begin_with_a_dash(any_toolchain: Toolchain, tmp_path: Path) -> None:
    source = tmp_path / "x.c"
    source.touch()
    answer = any_toolchain.run(["-###", "-c", "-g", "-O2", "-ffunction-sections", str(source), "-o", "x.o"]).stderr
    line = next(line for line in answer.splitlines() if '"-cc1"' in line)
    words = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    units = split_flags(words[words.index("-cc1") : -1])
    assert all(unit[0].startswith("-") for unit in units), units


def test_the_table_has_no_flag_twice() -> None:
    table = json.loads(Path(flags_module.__file__).with_name("flag_values.json").read_text())
    flags = [flag for lines in table.values() for flag in " ".join(lines).split()]
    assert len(flags) == len(set(flags)) > 200
