"""The entries of the catalogue, and its page."""

from __future__ import annotations

import re
from pathlib import Path

from mlgo_gym.corpus.datasets.catalogue import dataset_names, find_dataset, rust_names
from mlgo_gym.corpus.datasets.pins import catalogue_page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "datasets.md"


def test_entries_are_pinned_and_explained() -> None:
    for name in dataset_names():
        dataset = find_dataset(name)
        for archive in (dataset.archive, *dataset.needs.values()):
            assert re.fullmatch(r"[0-9a-f]{64}", archive.sha256)
        assert all((dataset.licence, dataset.summary, dataset.parts, *dataset.exclude.values()))
        assert all(path == path.strip("/") and ".." not in path for path in [*dataset.files, *dataset.needs])
    crates = [crate for name in rust_names() for crate in find_dataset(name).crates]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ [0-9a-f]{64}", f"{crate.version} {crate.sha256}") for crate in crates)
    assert len({crate.package for crate in crates}) == len(crates)


def test_the_committed_page_is_that_of_the_catalogue() -> None:
    assert PAGE.read_text() == catalogue_page(), "run `mlgo-gym corpus catalogue`"
