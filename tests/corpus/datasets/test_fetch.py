"""Source distributions, by digest, from the index that pip uses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlgo_gym.corpus.datasets import fetch
from mlgo_gym.corpus.datasets.fetch import fetch_source
from mlgo_gym.errors import CorpusError, UnreachableError
from mlgo_gym.storage.temporary_folders import process_prefix
from tests.corpus.package_index import PackageIndex, serve, source_distribution

NAME = "tiny-1.0.tar.gz"


@pytest.fixture
def index(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index that pip would use, and an empty cache."""
    with serve() as served:
        monkeypatch.setenv("PIP_INDEX_URL", served.url)
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
        monkeypatch.setattr(fetch, "_pip_setting", lambda name: None)
        yield served


def kept_files(cache: Path) -> list[Path]:
    """Return every file below the cache."""
    return [path for path in cache.rglob("*") if path.is_file()]


def test_a_source_distribution_is_downloaded_once(index: PackageIndex, own_cache: Path) -> None:
    digest = index.add(NAME, source_distribution({"a.c": "int a;\n"}))
    first = fetch_source("tiny", "1.0", digest)
    assert first.path.read_bytes() == index.files[NAME]
    assert fetch_source("tiny", "1.0", digest) == first
    assert index.downloads == 1


def test_another_digest_than_the_pinned_one_is_refused_and_nothing_is_kept(
    index: PackageIndex, own_cache: Path
) -> None:
    index.add(NAME, source_distribution({"a.c": "int a;\n"}))
    with pytest.raises(CorpusError, match=f"expected sha256 {'0' * 64}"):
        fetch_source("tiny", "1.0", "0" * 64)
    assert kept_files(own_cache) == []


def test_a_cached_archive_that_was_changed_is_fetched_again(index: PackageIndex) -> None:
    digest = index.add(NAME, source_distribution({"a.c": "int a;\n"}))
    path = fetch_source("tiny", "1.0", digest).path
    path.write_bytes(path.read_bytes()[:-1])
    assert fetch_source("tiny", "1.0", digest).path.read_bytes() == index.files[NAME]
    assert index.downloads == 2


@pytest.mark.parametrize(("package", "version"), [("tiny", "2.0"), ("absent", "1.0")])
def test_a_missing_distribution_is_named(index: PackageIndex, package: str, version: str) -> None:
    index.add(NAME, source_distribution({"a.c": ""}))
    with pytest.raises(CorpusError, match=f"no source distribution of {package} {version}"):
        fetch_source(package, version)


def test_an_index_out_of_reach_says_where_to_look(index: PackageIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple/")
    with pytest.raises(UnreachableError, match="pip config list"):
        fetch_source("tiny", "1.0")


def test_an_index_that_refuses_is_not_out_of_reach(index: PackageIndex) -> None:
    index.status = 503
    with pytest.raises(CorpusError, match="503") as refusal:
        fetch_source("tiny", "1.0")
    assert not isinstance(refusal.value, UnreachableError)


def test_a_broken_download_is_retried(index: PackageIndex, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        index.cut = 0

    monkeypatch.setattr(fetch, "sleep", wait)
    index.add(NAME, source_distribution({"a.c": "int a;\n"}))
    index.cut = 10
    assert fetch.fetch_source("tiny", "1.0").path.exists()
    assert waits == [fetch.DELAYS[0]]
    assert index.downloads == 2


def test_partial_downloads_of_killed_processes_are_removed(index: PackageIndex, own_cache: Path) -> None:
    digest = index.add(NAME, source_distribution({"a.c": "int a;\n"}))
    folder = own_cache / "downloads" / digest
    folder.mkdir(parents=True)
    left = folder / f"{process_prefix('.part-').replace(str(os.getpid()), '4194999')}x"
    left.mkdir()
    (left / NAME).write_bytes(b"half")
    fetch.fetch_source("tiny", "1.0", digest)
    assert [path.name for path in folder.iterdir()] == [NAME]
