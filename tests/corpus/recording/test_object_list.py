"""Which objects a build made, as LLVM's tools see it, or without their defects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.corpus.recording.object_list import (
    from_bazel_aquery,
    from_compile_commands,
    from_local_thinlto,
    read_object_list,
)
from mlgo_gym.errors import CorpusError

BASE = Path("/output/directory")


def entry(*arguments: str, **keys: Any) -> dict[str, Any]:
    """Return a command of a compilation database."""
    words = {"arguments": ["clang", "-c", "foo.c", *arguments]} if arguments else {}
    return {"directory": str(BASE), "file": "foo.c", **words, **keys}


def test_commands_without_an_output_and_broken_ones_are_skipped_and_named() -> None:
    broken = [{}, {"directory": "/x"}, {"directory": "/x", "command": "cc -o 'x"}, 7, {"directory": "/", "command": 7}]
    silent = entry("-objc-isystem", "d", "-opt-record-file", "r")
    found = from_compile_commands([*broken, None, silent, entry(command="cc -c y.c -o y.o")])
    assert [item.name for item in found.objects] == ["y.o"]
    assert len(found.skipped) == 7
    assert found.skipped[-1] == ("foo.c", "its command has no -o")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["-ofoo.o"], "foo.o"),
        (["--output=foo.o"], "foo.o"),
        (["--output", "foo.o"], "foo.o"),
        (["-o", "x.o", "-o", "foo.o"], "foo.o"),
        (["-o", "/output/directory/lib/x.o"], "lib/x.o"),
        (["-o", "/elsewhere/x.o"], "elsewhere/x.o"),
        (["-o", "../sibling/x.o"], "output/sibling/x.o"),
        (["-o", "lib/../x.o"], "x.o"),
        (["-o", "../../../../etc/x.o"], "etc/x.o"),
        (["-o", "my lib/my file.o"], "my lib/my file.o"),
    ],
    ids=" ".join,
)
def test_defect_no_spelling_of_an_output_is_missed_or_escapes_the_corpus(words: list[str], name: str) -> None:
    quoted = entry(command="cc -c 'my file.c' -DX=\"a b\" " + " ".join(f'"{word}"' for word in words))
    for command in (entry(*words), quoted):
        (item,) = from_compile_commands([command]).objects
        assert (item.name, item.path) == (name, BASE / words[-1].removeprefix("--output=").removeprefix("-o"))


def test_defect_equal_outputs_in_different_folders_do_not_overwrite_each_other(tmp_path: Path) -> None:
    def names(*outputs: tuple[str, str]) -> list[str]:
        commands = [entry("-o", name, directory=str(tmp_path / folder)) for folder, name in outputs]
        (tmp_path / "compile_commands.json").write_text(json.dumps(commands))
        return [item.name for item in read_object_list(tmp_path / "compile_commands.json", "json").objects]

    assert names(("one", "lib/x.o"), ("two", "lib/x.o"), ("one", "lib/y.o")) == [
        *("one/lib/x.o", "two/lib/x.o", "lib/y.o")
    ]
    renamed = names(("one", "x.o"), ("two", "x.o"), ("", "one/x.o/x.o"), (".", "two/x.o"))
    assert len(set(renamed)) == len(renamed)


def test_of_a_bazel_query_the_last_link_is_taken() -> None:
    compiles = {"mnemonic": "CppCompile", "arguments": ["cc", "-o", "x.o"]}
    actions = [
        {"mnemonic": "CppLink", "arguments": ["ld", "-o", "a", "first.o"]},
        compiles,
        {"mnemonic": "CppLink", "arguments": ["ld", "-o", "b", "second.o", "x.a"]},
        {"mnemonic": "CppArchive", "arguments": ["ar", "third.o"]},
    ]
    assert [item.name for item in from_bazel_aquery({"actions": actions}, BASE).objects] == ["second.o"]
    queries: list[Any] = [{}, [], {"actions": []}, {"actions": [compiles]}]
    for query in queries:
        with pytest.raises(CorpusError, match="expected a CppLink action"):
            from_bazel_aquery(query, BASE)


def test_of_a_local_thinlto_link_half_modules_are_skipped_and_named(tmp_path: Path) -> None:
    for name in ("1.3.import.bc", "2.thinlto.bc", "3.3.import.bc", "3.thinlto.bc"):
        (tmp_path / name).touch()
    found = from_local_thinlto(tmp_path)
    assert [item.name for item in found.objects] == ["3"]
    assert found.skipped == [("1", "1.thinlto.bc is missing"), ("2", "2.3.import.bc is missing")]


def test_an_input_that_is_something_else_is_an_error(tmp_path: Path) -> None:
    source = tmp_path / "input"
    for kind, content in (("json", "{"), ("json", "{}"), ("bazel_aquery", "x"), ("directory", "x"), ("ninja", "")):
        source.write_text(content)
        with pytest.raises(CorpusError):
            read_object_list(source, kind)
    source.unlink()
    for kind in ("json", "params"):
        with pytest.raises(CorpusError):
            read_object_list(source, kind)
