"""Which objects a build made. Names of tests tell LLVM's behaviour, or the defect that ours does not have."""

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


def entry(**keys: Any) -> dict[str, Any]:
    return {"directory": str(BASE), "file": "/some/path/lib/foo/bar.cc", **keys}


def read(path: Path, commands: list[Any]) -> list[str]:
    source = path / "compile_commands.json"
    source.write_text(json.dumps(commands))
    return [found.name for found in read_object_list(source, "json").objects]


def test_commands_without_an_output_are_skipped_and_named() -> None:
    found = from_compile_commands([entry(command="cc -c x.c", file="x.c"), entry(command="cc -c y.c -o y.o")])
    assert [item.name for item in found.objects] == ["y.o"]
    assert found.skipped == [("x.c", "its command has no -o")]


def test_defect_quoted_paths_do_not_break() -> None:
    found = from_compile_commands([entry(command="""cc -c 'my file.c' -DX="a b" -o "my lib/my file.o\"""")])
    assert [item.name for item in found.objects] == ["my lib/my file.o"]


@pytest.mark.parametrize(
    "output", [["-ofoo.o"], ["--output=foo.o"], ["--output", "foo.o"], ["-o", "x.o", "-o", "foo.o"]]
)
def test_defect_a_joined_output_is_not_missed(output: list[str]) -> None:
    found = from_compile_commands([entry(arguments=["clang", "-c", "foo.c", *output])])
    assert [item.name for item in found.objects] == ["foo.o"]


def test_flags_that_only_look_like_an_output_are_none() -> None:
    found = from_compile_commands(
        [entry(arguments=["clang", "-objc-isystem", "d", "-opt-record-file", "r", "-c", "x.c"])]
    )
    assert not found.objects


@pytest.mark.parametrize(
    ("output", "name"),
    [
        ("/output/directory/lib/x.o", "lib/x.o"),
        ("/elsewhere/x.o", "elsewhere/x.o"),
        ("../sibling/x.o", "output/sibling/x.o"),
        ("lib/../x.o", "x.o"),
        ("../../../../etc/x.o", "etc/x.o"),
    ],
)
def test_defect_no_output_escapes_the_corpus(output: str, name: str) -> None:
    found = from_compile_commands([entry(arguments=["clang", "-o", output])])
    assert [(item.name, item.path) for item in found.objects] == [(name, BASE / output)]


def test_defect_equal_outputs_in_different_folders_do_not_overwrite_each_other(tmp_path: Path) -> None:
    commands = [
        {"directory": str(tmp_path / folder), "file": "x.c", "command": f"cc -c x.c -o {name}"}
        for folder, name in (("one", "lib/x.o"), ("two", "lib/x.o"), ("one", "lib/y.o"))
    ]
    assert read(tmp_path, commands) == ["one/lib/x.o", "two/lib/x.o", "lib/y.o"]


def test_a_new_name_never_takes_that_of_another_object(tmp_path: Path) -> None:
    commands = [
        {"directory": str(tmp_path / folder), "file": "x.c", "command": f"cc -c x.c -o {name}"}
        for folder, name in (("one", "x.o"), ("two", "x.o"), ("", "one/x.o/x.o"), (".", "two/x.o"))
    ]
    names = read(tmp_path, commands)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "broken",
    [{}, {"directory": "/x"}, {"directory": "/x", "command": "cc -o 'x"}, 7, {"directory": "/x", "command": 7}, None],
)
def test_defect_one_broken_command_does_not_end_the_run(broken: Any) -> None:
    found = from_compile_commands([broken, entry(command="cc -c y.c -o y.o")])
    assert [item.name for item in found.objects] == ["y.o"]
    assert len(found.skipped) == 1


PARAMETERS = ["-o", "output/dir/exe", "lib/obj1.o", "somelib.a", "-W,blah.o", "lib/dir/obj2.o"]


def test_of_a_bazel_query_the_last_link_is_taken() -> None:
    actions = [
        {"mnemonic": "CppLink", "arguments": ["ld", "-o", "a", "first.o"]},
        {"mnemonic": "CppCompile", "arguments": ["cc", "-o", "x.o"]},
        {"mnemonic": "CppLink", "arguments": ["ld", "-o", "b", "second.o", "x.a"]},
        {"mnemonic": "CppArchive", "arguments": ["ar", "third.o"]},
    ]
    assert [item.name for item in from_bazel_aquery({"actions": actions}, BASE).objects] == ["second.o"]


@pytest.mark.parametrize("query", [{}, [], {"actions": []}, {"actions": [{"mnemonic": "CppCompile"}]}])
def test_a_bazel_query_without_a_link_is_an_error(query: Any) -> None:
    with pytest.raises(CorpusError, match="expected a CppLink action"):
        from_bazel_aquery(query, BASE)


def test_of_a_local_thinlto_link_half_modules_are_skipped_and_named(tmp_path: Path) -> None:
    for name in ("1.3.import.bc", "2.thinlto.bc", "3.3.import.bc", "3.thinlto.bc"):
        (tmp_path / name).touch()
    found = from_local_thinlto(tmp_path)
    assert [item.name for item in found.objects] == ["3"]
    assert found.skipped == [("1", "1.thinlto.bc is missing"), ("2", "2.3.import.bc is missing")]


@pytest.mark.parametrize(
    ("input_type", "content"),
    [
        ("json", "{"),
        ("json", "{}"),
        ("json", None),
        ("params", None),
        ("bazel_aquery", "x"),
        ("directory", "x"),
        ("ninja", ""),
    ],
)
def test_an_input_that_is_something_else_is_an_error(tmp_path: Path, input_type: str, content: str | None) -> None:
    source = tmp_path / "input"
    if content is not None:
        source.write_text(content)
    with pytest.raises(CorpusError):
        read_object_list(source, input_type)
