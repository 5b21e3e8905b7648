"""The Croissant metadata of the benchmark, read by MLCommons' own library."""

from pathlib import Path

import pytest

from mlgo_gym.corpus.datasets.catalogue import dataset_names, find_dataset

mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")

pytestmark = [pytest.mark.libraries, pytest.mark.filterwarnings("ignore")]

FILE = Path(__file__).parents[2] / "docs/results/croissant.json"


def test_the_metadata_name_each_archive_of_the_benchmark_with_its_digest() -> None:
    metadata = mlcroissant.Dataset(jsonld=FILE).metadata
    archives = {entry.id: (entry.name, entry.sha256) for entry in metadata.distribution}
    pinned = [find_dataset(name) for name in dataset_names()]
    assert archives == {
        entry.name: (f"{entry.archive.package} {entry.archive.version}", entry.archive.sha256) for entry in pinned
    }
    assert metadata.version == "2.0.0"
