"""`mlgo-gym corpus record` and `mlgo-gym corpus fetch`: what they print, and their exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.corpus import dataset as datasets
from mlgo_gym.corpus import fetch
from mlgo_gym.corpus.catalogue import Archive, Dataset, Part, dataset_names
from mlgo_gym.errors import CorpusError
from tests.corpus.package_index import serve, source_distribution


def run(*arguments: str) -> tuple[int, str, str]:
    """Run a command of `mlgo-gym corpus`; return its exit status and what it wrote to output and error."""
    result = CliRunner().invoke(application, ["corpus", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a source that compiles, one that does not, and one that only compiles at -O0."""
    (tmp_path / "good.c").write_text("int good(int x) { return x + 1; }\n")
    (tmp_path / "bad.c").write_text("int bad(void) { return missing; }\n")
    (tmp_path / "picky.c").write_text("#ifdef __OPTIMIZE__\n#error only without optimisation\n#endif\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_recording_tells_how_much_there_is(folder: Path) -> None:
    status, _, words = run("record", "--output", "out", "--", "sh", "-c", "cc -c good.c")
    assert status == 0
    assert "out: 1 modules, 1 lines of source, -Oz" in words
    assert (folder / "out" / "good.o.bc").exists()


def test_a_failed_recording_is_named_and_gives_status_1(folder: Path) -> None:
    status, _, words = run(
        "record", "--output", "out", "--optimize", "Os", "--", "sh", "-c", "cc -c good.c; cc -c picky.c"
    )
    assert status == 1
    assert "1 compiles could not be recorded" in words
    assert "picky.c:" in words
    assert "only without optimisation" in words


def test_the_status_of_a_failed_build_is_passed_on(folder: Path) -> None:
    status, _, words = run("record", "--output", "out", "--", "sh", "-c", "cc -c good.c; cc -c bad.c || exit 7")
    assert status == 7
    assert "the build ended with status 7" in words
    assert (folder / "out" / "good.o.bc").exists()


def test_names_are_relative_to_the_root_that_is_asked_for(folder: Path) -> None:
    (folder / "build").mkdir()
    command = ("sh", "-c", "cc -c good.c -o build/good.o")
    assert run("record", "--output", "out", "--root", "build", "--", *command)[0] == 0
    assert (folder / "out" / "good.o.bc").exists()


def test_fetching_shows_a_table_and_names_what_does_not_compile(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"good.c": "int good(int x) { return x + 1; }\n", "bad.c": "int bad(void) { return missing; }\n"}
    with serve() as index:
        digest = index.add("tiny-1.0.tar.gz", source_distribution(files))
        entry = Dataset("tiny", Archive("tiny", "1.0", digest), "MIT", "two files", (Part(("*.c",)),))
        monkeypatch.setattr(datasets, "find_dataset", {"tiny": entry}.__getitem__)
        monkeypatch.setattr(fetch, "_pip_setting", lambda name: None)
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        status, table, words = run("fetch", "tiny")
        assert status == 1
        assert "tiny" in table
        assert "bad.c" in words
        status, text, _ = run("fetch", "tiny", "--json")
    (report,) = json.loads(text)
    assert status == 1
    assert (report["name"], report["modules"], report["lines"]) == ("tiny", 1, 1)
    assert report["failures"][0]["source"] == "bad.c"


def test_what_cannot_be_fetched_is_named_and_gives_status_1(own_cache: Path) -> None:
    status, _, words = run("fetch", "zztd", "pypi:x")
    assert status == 1
    assert "no dataset 'zztd'" in words
    assert "NAME==VERSION was wanted" in words


def test_without_a_name_the_catalogue_is_shown(own_cache: Path) -> None:
    with pytest.raises(CorpusError, match=", ".join(dataset_names()[:3])):
        run("fetch")
