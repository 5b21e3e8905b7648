"""Which corpora can be had by name, and which of them are on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.corpus.builtin import LEVELS, builtin_folder
from mlgo_gym.corpus.catalogue import dataset_names, find_dataset
from mlgo_gym.corpus.dataset import REPORT_FILE, dataset_folder, lacks, read_report
from mlgo_gym.corpus.description import DESCRIPTION_FILE, read_description
from mlgo_gym.llvm.toolchain import Toolchain


@dataclass(frozen=True, slots=True)
class NamedCorpus:
    """A corpus that can be had by name.

    Attributes:
        name: what to give as `corpus=`.
        summary: what it is, in a line.
        licence: the licence of its sources.
        folder: where it lies once it is made.
        modules: the number of its modules, or None where it is not made yet.
        lacks: what it was to hold besides, and does not; the next use makes it again.
    """

    name: str
    summary: str
    licence: str
    folder: Path
    modules: int | None
    lacks: tuple[str, ...] = ()


def named_corpora(toolchain: Toolchain, optimize: str) -> list[NamedCorpus]:
    """Return the builtin corpus and the datasets of the catalogue, as the given clang makes them at a level."""
    entries = []
    if optimize in LEVELS:
        folder = builtin_folder(toolchain, optimize)
        made = (folder / DESCRIPTION_FILE).exists()
        modules = len(read_description(folder).modules) if made else None
        entries.append(NamedCorpus("builtin", "programs of this package, C and C++", "Apache-2.0", folder, modules))
    for name in dataset_names():
        dataset = find_dataset(name)
        folder = dataset_folder(dataset, optimize, toolchain)
        modules = read_report(name, folder).modules if (folder / REPORT_FILE).exists() else None
        summary = f"{dataset.summary} ({dataset.archive.package} {dataset.archive.version})"
        missing = () if modules is None else tuple(lacks(dataset, folder))
        entries.append(NamedCorpus(name, summary, dataset.licence, folder, modules, missing))
    return entries
