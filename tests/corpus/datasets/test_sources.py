"""Source distributions, by digest, from the index that pip uses; and amalgamations, split into their files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mlgo_clang.files import process_prefix
from mlgo_gym.corpus.datasets.sources import fetch_source, split_amalgamation
from mlgo_gym.errors import CorpusError, UnreachableError
from tests.corpus.datasets.conftest import NAME
from tests.corpus.package_index import PackageIndex


def test_a_source_distribution_is_downloaded_once_and_again_after_a_change(index: PackageIndex) -> None:
    digest = index.digests[NAME]
    first = fetch_source("tiny", "1.0", digest)
    assert first.path.read_bytes() == index.files[NAME]
    assert fetch_source("tiny", "1.0", digest) == first
    assert index.downloads == 1
    first.path.write_bytes(first.path.read_bytes()[:-1])
    assert fetch_source("tiny", "1.0", digest).path.read_bytes() == index.files[NAME]
    assert index.downloads == 2


def test_another_digest_than_the_pinned_one_is_refused_and_nothing_is_kept(
    index: PackageIndex, own_cache: Path
) -> None:
    with pytest.raises(CorpusError, match=f"expected sha256 {'0' * 64}"):
        fetch_source("tiny", "1.0", "0" * 64)
    assert [path for path in own_cache.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(("package", "version"), [("tiny", "2.0"), ("absent", "1.0")])
def test_a_missing_distribution_is_named(index: PackageIndex, package: str, version: str) -> None:
    with pytest.raises(CorpusError, match=f"no source distribution of {package} {version}"):
        fetch_source(package, version)


def test_an_index_that_refuses_is_not_out_of_reach(index: PackageIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index.status = 503
    with pytest.raises(CorpusError, match="503") as refusal:
        fetch_source("tiny", "1.0")
    assert not isinstance(refusal.value, UnreachableError)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple/")
    with pytest.raises(UnreachableError, match="pip config list"):
        fetch_source("tiny", "1.0")


def test_a_broken_download_is_retried(index: PackageIndex) -> None:
    index.cut = 10
    assert fetch_source("tiny", "1.0").path.read_bytes() == index.files[NAME]
    assert index.downloads == 2


def test_partial_downloads_of_killed_processes_are_removed(index: PackageIndex, own_cache: Path) -> None:
    folder = own_cache / "downloads" / index.digests[NAME]
    left = folder / f"{process_prefix('.part-').replace(str(os.getpid()), '4194999')}x"
    left.mkdir(parents=True)
    (left / NAME).write_bytes(b"half")
    fetch_source("tiny", "1.0", index.digests[NAME])
    assert [path.name for path in folder.iterdir()] == [NAME]


def test_an_amalgamation_comes_apart_into_its_files() -> None:
    text = (
        "dropped\n/**** start inlining common/a.c ****/\nbefore\n/**** start inlining a.h ****/\nint a;\n"
        "/**** ended inlining a.h ****/\nafter\n/**** skipping file: ../b.h ****/\n"
        "/**** ended inlining common/a.c ****/\n"
    )
    assert split_amalgamation(text) == {
        "common/a.c": 'before\n#include "a.h"\nafter\n#include "../b.h"\n',
        "common/a.h": "int a;\n",
    }
