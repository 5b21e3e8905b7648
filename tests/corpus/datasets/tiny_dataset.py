"""The dataset `tiny` of several tests: its sources and its entry of the catalogue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlgo_gym.corpus.datasets import dataset as datasets
from mlgo_gym.corpus.datasets.catalogue import Archive, Dataset, Part

FILES = {
    "src/good.c": '#include "config.h"\n#include <stdlib.h>\nint good(int x) { return abs(x) * SCALE; }\n',
    "src/more.cpp": "#include <initializer_list>\nint more(int x) { return std::initializer_list{x, 1}.size(); }\n",
    "src/bad.c": "int bad(void) { return missing; }\n",
    "src/windows.c": "#error not here\n",
}

TINY = Dataset(
    name="tiny",
    archive=Archive("tiny", "1.0", sha256=""),
    licence="MIT",
    summary="two modules",
    parts=(Part(sources=("src/*.c", "src/*.cpp"), include=("generated",)),),
    exclude={"src/windows.c": "for Windows"},
    files={"generated/config.h": "#define SCALE 3\n"},
)


def pinned(digest: str) -> Dataset:
    """Return the entry `tiny` with a digest."""
    return replace(TINY, archive=Archive("tiny", "1.0", digest))


def use(monkeypatch: pytest.MonkeyPatch, dataset: Dataset) -> None:
    """Put an entry into the catalogue."""
    monkeypatch.setattr(datasets, "find_dataset", {"tiny": dataset}.__getitem__)
    monkeypatch.setattr(datasets, "fetched_names", lambda: ("tiny",))
