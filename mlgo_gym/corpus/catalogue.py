"""The catalogue of datasets: which sources, pinned by their digest, and how they are compiled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from mlgo_gym.errors import CorpusError

_FOLDER = Path(__file__).parent / "datasets"


@dataclass(frozen=True, slots=True)
class Part:
    """Sources that are compiled alike.

    Attributes:
        sources: patterns relative to the unpacked archive, as `Path.glob` takes them.
        include: folders to look for headers in, relative to the same.
        options: what else the driver is given, such as `-std=c++17` or `-DNAME=1`.
        prefix: a folder before the module names, for sources that are compiled more than once. Of two parts with the
            same prefix the later one decides about a source that both match.
    """

    sources: tuple[str, ...]
    include: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Archive:
    """A pinned source distribution.

    Attributes:
        package: its name on the package index.
        version: its version.
        sha256: its digest.
    """

    package: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """One entry.

    Attributes:
        name: what it is called in the catalogue.
        archive: the source distribution that its sources come from.
        licence: the licence of the compiled sources, as an SPDX expression.
        summary: what it is, in a line.
        parts: what is compiled; empty where the package's own build is recorded.
        exclude: patterns of sources that are left out, with the reason for each.
        files: files that the build of the project would write, such as `config.h`, by path.
        amalgamations: files that are taken apart first, with the folder for the files they are made of.
        needs: further source distributions that are unpacked first, by folder: libraries whose headers are used.
    """

    name: str
    archive: Archive
    licence: str
    summary: str
    parts: tuple[Part, ...] = ()
    exclude: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    amalgamations: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, Archive] = field(default_factory=dict)

    @property
    def recipe(self) -> list[object]:
        """Everything that decides what the modules are, as JSON-able values."""
        parts = [[*map(list, (part.sources, part.include, part.options)), part.prefix] for part in self.parts]
        rest = [sorted(mapping.items()) for mapping in (self.exclude, self.files, self.amalgamations)]
        archives = {"": self.archive, **self.needs}
        pins = [[folder, *astuple(archive)] for folder, archive in sorted(archives.items())]
        return [pins, parts, *rest]


def dataset_names() -> list[str]:
    """Return the names of all datasets in the catalogue, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


@lru_cache
def find_dataset(name: str) -> Dataset:
    """Return the dataset of that name.

    Raises:
        CorpusError: there is none.
    """
    path = _FOLDER / f"{name}.json"
    if name not in dataset_names():
        raise CorpusError(f"there is no dataset {name!r}; the catalogue has {', '.join(dataset_names())}")
    try:
        return _parse(name, json.loads(path.read_bytes()))
    except (ValueError, TypeError) as error:
        raise CorpusError(f"{path}: an entry of the catalogue was wanted: {error}; install mlgo-gym again") from error


def _parse(name: str, entry: dict[str, Any]) -> Dataset:
    parts = tuple(
        Part(
            sources=tuple(part.pop("sources")),
            include=tuple(part.pop("include", ())),
            options=tuple(part.pop("options", ())),
            **part,
        )
        for part in entry.pop("parts", ())
    )
    files = {path: "".join(f"{line}\n" for line in lines) for path, lines in entry.pop("files", {}).items()}
    archive = Archive(entry.pop("package"), entry.pop("version"), entry.pop("sha256"))
    needs = {folder: Archive(**pin) for folder, pin in entry.pop("needs", {}).items()}
    return Dataset(name=name, archive=archive, parts=parts, files=files, needs=needs, **entry)
