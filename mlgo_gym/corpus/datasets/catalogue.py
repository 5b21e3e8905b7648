"""The catalogue of datasets: sources, pinned by their digest, how to compile them, and pins of their modules.

`mlgo-gym corpus catalogue` prints the catalogue.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from mlgo_gym.cache import sha256_of
from mlgo_gym.corpus.folder import DESCRIPTION_FILE, read_description
from mlgo_gym.errors import CorpusError, did_you_mean
from mlgo_gym.llvm.toolchain import Toolchain

PROGRAMS = "programs"
"""Name of the dataset of runnable programs; it is no part of the catalogue, whose projects it contains again."""

RUST = "rust"
"""Name of all datasets of Rust crates, each of which is `rust-FAMILY`; they are no part of the catalogue."""

_FOLDER = Path(__file__).parent / "descriptions"
_CRATES = Path(__file__).parent / "rust"
_PROGRAMS = Path(__file__).parent / "programs"
_PINS = Path(__file__).parent / "pins"
_PAGE = """\
# Datasets

For people who choose modules to train and measure on: the datasets that `mlgo-gym corpus fetch` compiles.

`mlgo-gym corpus fetch --all` compiles them. Sources come from the package index by digest and are compiled at -Oz.
`corpus fetch NAME --optimize Os` compiles another level, for `corpus="NAME@Os"`.
"""


@dataclass(frozen=True, slots=True)
class Part:
    """Sources that are compiled with the same options.

    Attributes:
        sources: `Path.glob` patterns relative to the unpacked archive.
        include: folders with headers, relative to the archive.
        options: driver options, such as `-std=c++17` or `-DNAME=1`.
        prefix: folder before the module names, for sources that are compiled more than once. If two parts with the
            same prefix match a source, the later one counts.
    """

    sources: tuple[str, ...]
    include: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Archive:
    """A pinned source distribution: name and version on the package index, and hexadecimal digest."""

    package: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """One entry of the catalogue.

    Attributes:
        name: name in the catalogue.
        archive: source distribution.
        licence: licence of the compiled sources, as an SPDX expression.
        summary: one-line description.
        parts: compiled sources; empty if the package's own build is recorded.
        exclude: reason by pattern of excluded sources.
        files: content by path of files that the project's build generates, such as `config.h`.
        amalgamations: target folder by path of files to split into the files that they were made of.
        needs: further source distributions by target folder, such as libraries whose headers are used.
        folder: target folder of the own source distribution; by default the root.
        programs: content of `programs.toml` in the corpus, or an empty text.
        target: target of its compiles, as for `driver_options()`; an empty text for `PORTABLE_TARGET`.
        crates: Rust crates that are its modules; cargo fetches and builds them. The digest of the archive is that of
            their checksums.
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
    folder: str = ""
    programs: str = ""
    target: str = ""
    crates: tuple[Archive, ...] = ()

    @property
    def recipe(self) -> list[object]:
        """Everything that decides the modules, as JSON-able values."""
        parts = [[*map(list, (part.sources, part.include, part.options)), part.prefix] for part in self.parts]
        rest = [sorted(mapping.items()) for mapping in (self.exclude, self.files, self.amalgamations)]
        archives = {"": self.archive, **self.needs}
        pins = [[folder, *astuple(archive)] for folder, archive in sorted(archives.items())]
        optional = filter(None, (self.folder, self.programs, self.target, [*map(astuple, self.crates)]))
        return [pins, parts, *rest, *optional]


def dataset_names() -> list[str]:
    """Return the names of all datasets in the catalogue, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def rust_names() -> list[str]:
    """Return the names of the datasets of Rust crates, sorted."""
    return sorted(f"{RUST}-{path.stem}" for path in _CRATES.glob("*.json"))


def own_description(name: str) -> Path | None:
    """Return the description of a dataset in the user's folder `$MLGO_DATASETS`, or None."""
    path = Path(os.environ.get("MLGO_DATASETS") or os.devnull, f"{name}.json")
    return path if path.is_file() else None


def fetched_names() -> list[str]:
    """Return the names that can be fetched: of the catalogue, of Rust crates, `programs`, and in `$MLGO_DATASETS`."""
    own = Path(os.environ.get("MLGO_DATASETS") or os.devnull).glob("*.json")
    return sorted({*dataset_names(), *rust_names(), PROGRAMS, *(path.stem for path in own)})


def find_dataset(name: str) -> Dataset:
    """Return the dataset of that name, first from `$MLGO_DATASETS`; raise `CorpusError` if there is none."""
    own = own_description(name)
    return _find_in_catalogue(name) if own is None else _read(name, own, "correct it")


@lru_cache
def _find_in_catalogue(name: str) -> Dataset:
    if name not in fetched_names():
        names = fetched_names()
        raise CorpusError(f"expected a dataset of {', '.join(names)}, got {name!r}{did_you_mean(name, names)}")
    if name == PROGRAMS:
        return _with_drivers(_read(name, _PROGRAMS / "description.json"))
    family = _CRATES / f"{name.removeprefix(f'{RUST}-')}.json"
    return _read(name, family if name in rust_names() else _FOLDER / f"{name}.json")


def _read(name: str, path: Path, remedy: str = "reinstall mlgo-gym") -> Dataset:
    try:
        entry: dict[str, Any] = json.loads(path.read_bytes())
        if "crates" in entry:  # with version and checksum as in a `Cargo.lock`
            crates = tuple(Archive(crate, version, checksum) for crate, (version, checksum) in entry["crates"].items())
            digest = hashlib.sha256("".join(crate.sha256 for crate in crates).encode()).hexdigest()
            return Dataset(name, Archive(name, digest[:8], digest), entry["licence"], entry["summary"], crates=crates)
        parts: list[dict[str, Any]] = entry.pop("parts", [])
        for part in parts:
            part |= {key: tuple(value) for key, value in part.items() if key != "prefix"}
        files = {file: "".join(f"{line}\n" for line in lines) for file, lines in entry.pop("files", {}).items()}
        archive = Archive(entry.pop("package"), entry.pop("version"), entry.pop("sha256"))
        needs = {folder: Archive(**pin) for folder, pin in entry.pop("needs", {}).items()}
        return Dataset(name, archive, parts=tuple(Part(**part) for part in parts), files=files, needs=needs, **entry)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise CorpusError(f"{path}: expected an entry of the catalogue: {error!r}; {remedy}") from error


def _with_drivers(dataset: Dataset) -> Dataset:
    """Return the dataset of programs with the source of each `main()`, `NAME.c` as `NAME/driver.c`."""
    sources = sorted(path for path in _PROGRAMS.iterdir() if path.suffix in (".c", ".cpp"))
    drivers = {f"{path.stem}/driver{path.suffix}": path.read_text(encoding="utf-8") for path in sources}
    drivers["workload.h"] = (_PROGRAMS / "workload.h").read_text(encoding="utf-8")
    programs = (_PROGRAMS / "programs.toml").read_text(encoding="utf-8")
    return replace(dataset, files={**dataset.files, **drivers}, programs=programs)


@dataclass(frozen=True, slots=True)
class Pins:
    """Expected modules of a dataset in order, and `corpus_digest()` by level for a version of the bundled clang."""

    modules: tuple[str, ...]
    compiler: str
    digests: Mapping[str, str]


def find_pins(dataset: Dataset) -> Pins | None:
    """Return the pins of a dataset, or None if there are none for its sources and its target."""
    own = own_description(dataset.name)
    path = (_PINS if own is None else own.parent / "pins") / f"{dataset.name}.json"
    content = json.loads(path.read_bytes()) if path.is_file() else {}
    if content.get("archive") != dataset.archive.sha256 or dataset.target:
        return None
    return Pins(tuple(" ".join(content["modules"]).split()), content["clang"], content["digests"])


def missing_files(folder: Path, dataset: Dataset | None) -> list[str]:
    """Return the pinned modules of a dataset, if any, and the modules' files that a folder lacks."""
    if not (folder / DESCRIPTION_FILE).is_file():
        return [DESCRIPTION_FILE]
    modules = read_description(folder).modules
    pins = None if dataset is None else find_pins(dataset)
    present = set(modules)
    missing = [name for name in (pins.modules if pins else ()) if name not in present]
    files = (f"{name}{suffix}" for name in modules for suffix in (".bc", ".cmd"))
    return missing + [file for file in files if not (folder / file).is_file()]


def corpus_digest(folder: Path, modules: Sequence[str]) -> str:
    """Return a SHA-256 of the names, bitcode and flags of modules; raise `CorpusError` if a file is missing."""
    digest = hashlib.sha256()
    for name in modules:
        try:
            parts = [sha256_of(folder / f"{name}{suffix}") for suffix in (".bc", ".cmd")]
        except OSError as error:
            raise CorpusError(f"{folder}: the module {name} is incomplete: {error}; fetch the dataset again") from error
        digest.update(f"{name} {' '.join(parts)}\n".encode())
    return digest.hexdigest()


def wrong_digest(folder: Path, dataset: Dataset, optimize: str, toolchain: Toolchain) -> str | None:
    """Return an error text if the bundled compiler compiled a dataset to modules other than the pinned ones."""
    pins = find_pins(dataset)
    if pins is None or not toolchain.bundled or pins.compiler != toolchain.version_text:
        return None
    pinned = pins.digests.get(optimize)
    actual = corpus_digest(folder, read_description(folder).modules)
    if pinned is None or actual == pinned:
        return None
    return f"expected the digest {pinned} of its modules, got {actual}; fetch it again"


def catalogue_page() -> str:
    """Return the Markdown page of the catalogue, with a row per dataset."""
    columns = ("dataset", "description", "package", "licence", "language", "modules")
    rows = [columns, (*["---"] * 5, "---:")]
    for dataset in map(find_dataset, dataset_names()):
        suffixes = {Path(pattern).suffix for part in dataset.parts for pattern in part.sources}
        languages = " and ".join(sorted({"C" if suffix == ".c" else "C++" for suffix in suffixes}))
        package = f"{dataset.archive.package} {dataset.archive.version}"
        pins = find_pins(dataset)
        modules = f"{len(pins.modules):,}" if pins else ""
        rows.append((dataset.name, dataset.summary, package, dataset.licence, languages, modules))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{_PAGE}\n{table}\n"
