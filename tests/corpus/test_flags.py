"""Adding, deleting and replacing flags."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mlgo_gym.corpus.flags import arity, edit_flags
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain

LINE = "-cc1 -triple x86_64-linux -Oz -emit-obj -mllvm -inline-threshold=5 -fvisibility=hidden"


EDITED: list[tuple[str, dict[str, Any], str]] = [
    (LINE, {"add": ["-mllvm", "-x"]}, f"{LINE} -mllvm -x"),
    (LINE, {"delete": ["-Oz"]}, LINE.replace(" -Oz", "")),
    (LINE, {"delete": ["-triple"]}, LINE.replace(" -triple x86_64-linux", "")),
    (LINE, {"delete": ["-fvisibility"]}, LINE.replace(" -fvisibility=hidden", "")),
    (LINE, {"delete": ["-inline-threshold"]}, LINE.replace(" -mllvm -inline-threshold=5", "")),
    (LINE, {"delete": ["-g"]}, LINE),
    ("-cc1 -I a -Ib -O2 -I c", {"delete": ["-I"]}, "-cc1 -O2"),
    ("-cc1 -target-cpu x86-64 -target-abi x", {"delete": ["-target"]}, "-cc1 -target-cpu x86-64 -target-abi x"),
    ("-Oz -Xclang -target-feature -Xclang +avx -w", {"delete": ["-target-feature"]}, "-Oz -w"),
    (LINE, {"replace": {"-triple": "riscv64"}}, LINE.replace("x86_64-linux", "riscv64")),
    (LINE, {"replace": {"-O": "2"}}, LINE.replace("-Oz", "-O2")),
    (LINE, {"replace": {"-fvisibility": "default"}}, LINE.replace("hidden", "default")),
    (LINE, {"replace": {"-inline-threshold": "9"}}, LINE.replace("=5", "=9")),
]


def test_flags_are_edited_with_their_values_in_every_spelling() -> None:
    for line, edits, edited in EDITED:
        assert edit_flags(tuple(line.split()), **edits) == tuple(edited.split())


IMPOSSIBLE: list[tuple[str, dict[str, Any], str]] = [
    (LINE, {"replace": {"-mcpu": "x"}}, "expected one -mcpu to replace, got 0"),
    (f"{LINE} -O2", {"replace": {"-O": "1"}}, "expected one -O to replace, got 2"),
    (LINE, {"replace": {"-emit-obj": "x"}}, "expected a flag with a value"),
    (LINE, {"add": ["-O2"], "delete": ["-O"]}, "name it once"),
    (LINE, {"add": ["-triple", "x"], "replace": {"-triple": "y"}}, "name it once"),
    (LINE, {"add": ["-mllvm", "-inline-threshold=1"], "delete": ["-inline-threshold"]}, "name it once"),
    ("-cc1 -triple", {"delete": ["-g"]}, r"expected 1 value\(s\) after -triple"),
]


def test_an_impossible_edit_is_one_line() -> None:
    for line, edits, message in IMPOSSIBLE:
        with pytest.raises(CorpusError, match=message):
            edit_flags(tuple(line.split()), **edits)


def test_clang_agrees_with_the_table_of_values(any_toolchain: Toolchain) -> None:
    """Each flag alone lacks its value; those of other versions are unknown, and then arity hardly matters."""
    for flag in ("-triple", "-mllvm", "-target-cpu", "-main-file-name", "-internal-isystem", "-mrelocation-model"):
        answer = any_toolchain.run(["-cc1", flag]).stderr
        assert re.search(rf"argument to '{flag}' is missing \(expected {arity(flag)} value", answer), answer
    for flag in ("-Oz", "-emit-obj", "-disable-free", "-vectorize-slp", "-mconstructor-aliases", "-fvisibility=hidden"):
        assert arity(flag) == 0
        assert "is missing" not in any_toolchain.run(["-cc1", flag, "-version"]).stderr
