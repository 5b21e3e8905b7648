"""What LLVM's own tests of mlgo-utils check of `extract`, `make` and `combine`, by their numbers.

Compile commands and ThinLTO (1 to 3, 8 to 10 and 12) are in `recording`. Deliberate differences are listed in
docs/reference/corpora.md.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.corpus.recording.extract import extract_corpus
from mlgo_gym.corpus.recording.object_list import (
    from_linker_parameters,
)
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.conftest import write_files

BUILD = Path("/build")


def run(*words: object) -> None:
    """Run `mlgo-gym corpus` with the options of LLVM's scripts and check its exit status."""
    result = CliRunner().invoke(application, ["corpus", *map(str, words)])
    assert result.exit_code == 0, result.output


def describe(folder: Path, **content: object) -> None:
    """Write a description as another tool would."""
    write_files(folder, {"corpus_description.json": json.dumps(content)})


def description(folder: Path) -> dict[str, Any]:
    """Return the description of a corpus, with its modules in order."""
    content: dict[str, Any] = json.loads((folder / "corpus_description.json").read_text())
    return {**content, "modules": sorted(content["modules"])}


def files_below(folder: Path) -> list[str]:
    """Return the paths of all files below a folder but the description."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(str(path) for path in paths if path.name != "corpus_description.json")


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Path:
    """A build folder with two objects that hold their bitcode and their flags."""
    folder = write_files(tmp_path_factory.mktemp("build"), {"f.c": "int f(int x) { return x + 1; }\n"})
    (folder / "lib").mkdir()
    for name in ("test1.o", "lib/test2.o"):
        flags = ["--target=x86_64-unknown-linux-musl", "-Xclang", "-fembed-bitcode=all", "-Oz", "-c"]
        answer = toolchain.run([*flags, str(folder / "f.c"), "-o", str(folder / name)])
        assert answer.returncode == 0, answer.stderr
    return folder


def test_13_14_15_and_21_bitcode_is_copied_nested_as_it_is_and_described(tmp_path: Path, calls: Path) -> None:
    modules = ["nested/test1", "nested/test2"]
    (tmp_path / "from/nested").mkdir(parents=True)
    for name in modules:
        shutil.copy(calls, tmp_path / f"from/{name}.bc")
    run("make", f"--input_dir={tmp_path / 'from'}", f"--output_dir={tmp_path / 'to'}", "--default_args=-O3 -c")
    assert description(tmp_path / "to") == {
        "global_command_override": ["-O3", "-c"],
        "has_thinlto": False,
        "modules": modules,
    }
    assert files_below(tmp_path / "to") == [f"{name}.bc" for name in modules]


@pytest.mark.parametrize("based", [True, False])
def test_4_and_5_flags_and_bitcode_are_those_of_the_object_below_its_base_or_here(
    objects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, based: bool
) -> None:
    monkeypatch.chdir(tmp_path if based else objects)
    found = from_linker_parameters(["lib/test2.o"], objects if based else Path())
    assert extract_corpus(found, tmp_path / "corpus").modules == ["lib/test2.o"]
    assert (tmp_path / "corpus/lib/test2.o.cmd").read_bytes().startswith(b"-cc1\0")
    assert (tmp_path / "corpus/lib/test2.o.bc").read_bytes().startswith(b"BC\xc0\xde")


def test_6_linker_parameters_are_the_objects_among_them_without_the_output() -> None:
    words = ["-o", "bin/program", "lib/one.o", "some.a", "-W,blah.o", "lib/other/two.o"]
    found = from_linker_parameters(words, BUILD)
    assert [(item.name, item.path) for item in found.objects] == [
        (name, BUILD / name) for name in ("lib/one.o", "lib/other/two.o")
    ]


def test_11_a_filter_takes_modules_with_an_argument_that_it_matches(objects: Path, tmp_path: Path) -> None:
    found = from_linker_parameters(["test1.o"], objects)
    for expression in (None, ".*", "^-Oz$"):
        assert extract_corpus(found, tmp_path / "corpus", cmd_filter=expression).modules == ["test1.o"]
    # Theirs writes an empty corpus; this package raises.
    with pytest.raises(CorpusError, match="excluded by the filter"):
        extract_corpus(found, tmp_path / "corpus", cmd_filter="^-O3$")


def test_7_and_20_a_folder_is_all_objects_below_it_each_with_its_flags(objects: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    run("extract", f"--input={objects}", "--input_type=directory", f"--output_dir={corpus}")
    assert description(corpus) == {"has_thinlto": False, "modules": ["lib/test2.o", "test1.o"]}
    assert files_below(corpus) == [f"{name}.o{suffix}" for name in ("lib/test2", "test1") for suffix in (".bc", ".cmd")]


def test_16_17_18_19_and_22_combined_modules_are_called_after_their_folders(tmp_path: Path) -> None:
    describe(tmp_path / "one", has_thinlto=False, modules=["test1.o", "test2.o"])
    describe(tmp_path / "two", has_thinlto=False, modules=["test3.o"])
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.log").touch()
    run("combine", f"--root_dir={tmp_path}")
    modules = ["one/test1.o", "one/test2.o", "two/test3.o"]
    assert description(tmp_path) == {"has_thinlto": False, "modules": modules}
