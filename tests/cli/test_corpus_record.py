"""`mlgo-gym corpus record`: output and exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.corpus_command import run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a source that compiles, one that does not, and one that only compiles at -O0."""
    (tmp_path / "good.c").write_text("int good(int x) { return x + 1; }\n")
    (tmp_path / "bad.c").write_text("int bad(void) { return missing; }\n")
    (tmp_path / "picky.c").write_text("#ifdef __OPTIMIZE__\n#error only without optimisation\n#endif\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_recording_prints_modules_and_lines(folder: Path) -> None:
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


def test_names_are_relative_to_the_chosen_root(folder: Path) -> None:
    (folder / "build").mkdir()
    command = ("sh", "-c", "cc -c good.c -o build/good.o")
    assert run("record", "--output", "out", "--root", "build", "--", *command)[0] == 0
    assert (folder / "out" / "good.o.bc").exists()
