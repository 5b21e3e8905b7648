"""`mlgo-gym corpus fetch`: output and exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlgo_gym.corpus.datasets import dataset as datasets
from mlgo_gym.corpus.datasets import fetch
from mlgo_gym.corpus.datasets.catalogue import Archive, Dataset, Part, dataset_names
from mlgo_gym.errors import CorpusError
from tests.cli.corpus_command import run
from tests.corpus.package_index import serve, source_distribution


def test_fetching_shows_a_table_and_names_failed_compiles(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_dataset_that_cannot_be_fetched_is_named_and_gives_status_1(own_cache: Path) -> None:
    status, _, words = run("fetch", "zztd", "pypi:x")
    assert status == 1
    assert "got 'zztd'" in words
    assert "expected pypi:NAME==VERSION" in words


def test_without_a_name_the_catalogue_is_shown(own_cache: Path) -> None:
    with pytest.raises(CorpusError, match=", ".join(dataset_names()[:3])):
        run("fetch")
