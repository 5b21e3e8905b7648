"""The entries of the catalogue."""

from __future__ import annotations

import re

import pytest

from mlgo_gym.corpus.datasets.catalogue import dataset_names, find_dataset


@pytest.mark.parametrize("name", dataset_names())
def test_entries_of_the_catalogue_are_pinned_and_explained(name: str) -> None:
    dataset = find_dataset(name)
    for archive in (dataset.archive, *dataset.needs.values()):
        assert re.fullmatch(r"[0-9a-f]{64}", archive.sha256)
    assert dataset.licence
    assert dataset.summary
    assert dataset.parts
    assert all(dataset.exclude.values())
    assert all(path == path.strip("/") and ".." not in path for path in [*dataset.files, *dataset.needs])
