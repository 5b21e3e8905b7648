"""One corpus from several."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlgo_gym.corpus.combine import combine_corpora
from mlgo_gym.corpus.description import read_description, write_description
from mlgo_gym.errors import CorpusError


def test_module_names_gain_the_name_of_their_folder(tmp_path: Path) -> None:
    write_description(tmp_path / "two", ["x.o"])
    write_description(tmp_path / "one", ["b", "lib/a"])
    assert combine_corpora(tmp_path) == ["one/b", "one/lib/a", "two/x.o"]
    assert read_description(tmp_path).modules == ("one/b", "one/lib/a", "two/x.o")


def test_every_other_key_is_kept(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_description(tmp_path / name, ["x"], has_thinlto=True, global_command_override=["-cc1"], project="p")
    combine_corpora(tmp_path)
    content = json.loads((tmp_path / "corpus_description.json").read_text())
    assert content == {
        "modules": ["one/x", "two/x"],
        "has_thinlto": True,
        "global_command_override": ["-cc1"],
        "project": "p",
    }


@pytest.mark.parametrize("keys", [{"has_thinlto": True}, {"global_command_override": ["-cc1"]}, {"project": "p"}])
@pytest.mark.parametrize("swapped", [False, True])
def test_any_other_key_that_differs_is_an_error(tmp_path: Path, keys: dict[str, object], swapped: bool) -> None:
    write_description(tmp_path / "one", ["x"], **({} if swapped else keys))  # type: ignore[arg-type]
    write_description(tmp_path / "two", ["x"], **(keys if swapped else {}))  # type: ignore[arg-type]
    with pytest.raises(CorpusError, match=f"one and two differ in {next(iter(keys))}"):
        combine_corpora(tmp_path)
    assert not (tmp_path / "corpus_description.json").exists()


def test_what_is_no_corpus_is_ignored(tmp_path: Path) -> None:
    write_description(tmp_path / "one", ["x"])
    write_description(tmp_path / "one" / "deeper", ["y"])
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    assert combine_corpora(tmp_path) == ["one/x"]


def test_combining_again_gives_the_same(tmp_path: Path) -> None:
    write_description(tmp_path / "one", ["x"])
    assert combine_corpora(tmp_path) == combine_corpora(tmp_path) == ["one/x"]


@pytest.mark.parametrize("name", ["empty", "nowhere"])
def test_defect_combining_nothing_writes_no_empty_corpus(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="check --root_dir"):
        combine_corpora(tmp_path / name)
    assert not (tmp_path / name / "corpus_description.json").exists()
