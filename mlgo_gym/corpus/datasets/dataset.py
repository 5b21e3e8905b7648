"""Datasets: sources fetched by their digest, recorded, and cached as corpora."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mlgo_clang.files import read_untrusted
from mlgo_gym.corpus.datasets.builds import (
    DatasetBuild,
    FetchProgress,
    installed_rustc,
    record_crates,
    record_package,
    record_parts,
)
from mlgo_gym.corpus.datasets.catalogue import Archive, Dataset, find_dataset, missing_files, wrong_digest
from mlgo_gym.corpus.datasets.sources import SourceArchive, fetch_archives, unpack_sources
from mlgo_gym.corpus.recording.recorder import RecordFailure
from mlgo_gym.corpus.targets import DEFAULT_TARGET, check_level, find_target
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain
from mlgo_gym.storage.cache import cache_directory, key_of, write_atomically
from mlgo_gym.storage.temporary_folders import locked

REPORT_FILE = "recording.json"
PROGRAMS_FILE = "programs.toml"
_REVISION = 3
_LOCK_SECONDS = 7200.0  # another process may fetch and compile the dataset meanwhile
_PYPI = re.compile(r"pypi:([A-Za-z0-9][\w.-]*)==([\w.+!-]+)")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DatasetReport:
    """Result of making a dataset.

    Attributes:
        name: name that was requested.
        modules: number of modules.
        lines: source lines of the modules; each source counts once.
        languages: number of modules per language: `C`, `C++`, `Rust`.
        failures: sources that do not compile.
        seconds: wall time to unpack, compile and record, without the download.
        skipped: number of compiles that were not recorded, by reason.
    """

    name: str
    folder: Path
    modules: int
    lines: int
    languages: Mapping[str, int]
    failures: tuple[RecordFailure, ...]
    seconds: float
    skipped: Mapping[str, int] = field(default_factory=dict)


def fetch_dataset(
    name: str,
    *,
    optimize: str = "Oz",
    target: str = DEFAULT_TARGET,
    toolchain: Toolchain | None = None,
    jobs: int | None = None,
    progress: FetchProgress | None = None,
) -> Path:
    """Return the corpus folder of a dataset; fetched, compiled and recorded on first use.

    Of concurrent processes one makes it and the others wait. An incomplete dataset is replaced. `progress` is called
    at each step, and each half minute of a build.

    Args:
        name: name in the catalogue; or `rust-FAMILY`, whose crates cargo fetches and builds; or `pypi:NAME==VERSION`
            for a source distribution with C or C++, which is built as pip builds it, in its own environment.
        optimize: recorded optimisation level, one of `LEVELS`.
        target: target of the modules, one of `TARGETS`. Sources for another machine do not compile, and are in
            `read_report()`.
        toolchain: the clang; by default `find_toolchain()`.
        jobs: number of concurrent compilers; by default one per CPU.

    Raises:
        UnreachableError: the package index does not answer.
        CorpusError: there is no such dataset, level or target, it cannot be fetched, or nothing compiles. Other
            sources that do not compile are in `read_report()`.
    """
    check_level(optimize)
    toolchain = toolchain or find_toolchain()
    dataset = _from_index(name) if name.startswith("pypi:") else find_dataset(name)
    if target != DEFAULT_TARGET:
        dataset = replace(dataset, target=find_target(target).name)
    folder = dataset_folder(dataset, optimize, toolchain)
    if not missing_parts(dataset, folder):
        return folder
    jobs = jobs or os.cpu_count() or 1
    try:
        with locked(folder, _LOCK_SECONDS):
            if missing_parts(dataset, folder):
                if progress is None:
                    _log.info("the dataset %s is fetched and compiled at -%s, once", name, optimize)
                _make(dataset, folder, optimize, toolchain, jobs, progress or (lambda *_: None))
    except OSError as error:
        raise CorpusError(
            f"{name} cannot be written to {cache_directory()}: {error}; free space, make the folder writable, or set "
            "$MLGO_CACHE to another one"
        ) from error
    return folder


def missing_parts(dataset: Dataset | None, folder: Path) -> list[str]:
    """Return files and sources that a cached dataset should contain and does not; `REPORT_FILE` if it is not cached.

    Without a dataset the modules are those that the folder describes. Sources that do not compile are not missing,
    except when their compiler was killed.
    """
    try:
        report = json.loads(read_untrusted(folder / REPORT_FILE))
        killed = [failure["source"] for failure in report["failures"] if failure.get("killed")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return [REPORT_FILE]
    return killed or missing_files(folder, dataset)


def missing_in_folder(folder: Path | None) -> list[str]:
    """Return `missing_parts()` of a folder with a copy of a dataset; nothing for other folders."""
    missing = [] if folder is None else missing_parts(None, folder)
    return [] if missing == [REPORT_FILE] else missing


def dataset_folder(dataset: Dataset, optimize: str, toolchain: Toolchain) -> Path:
    """Return the folder of a dataset in the cache."""
    front_end = [installed_rustc()] if dataset.crates else []
    key = key_of(_REVISION, dataset.recipe, toolchain.version_text, toolchain.bundled, *front_end)[:8]
    level = f"{optimize}-clang-{toolchain.version_text}-{key}"
    return cache_directory() / "datasets" / f"{dataset.name}-{dataset.archive.version}" / level


def read_report(name: str, folder: Path) -> DatasetReport:
    """Return the report of the dataset in a folder that `fetch_dataset()` returned."""
    content = json.loads(read_untrusted(folder / REPORT_FILE))
    content["failures"] = tuple(RecordFailure(**failure) for failure in content["failures"])
    known = {entry.name: content[entry.name] for entry in fields(DatasetReport) if entry.name in content}
    return DatasetReport(name=name, folder=folder, **known)


def _from_index(name: str) -> Dataset:
    match = _PYPI.fullmatch(name)
    if match is None:
        raise CorpusError(f"expected pypi:NAME==VERSION, as in pypi:zstandard==0.25.0, got {name!r}")
    package, version = match.groups()
    package = re.sub(r"[-_.]+", "-", package).lower()  # PEP 503
    return Dataset(f"pypi-{package}", Archive(package, version, sha256=""), licence="", summary="")


def _make(
    dataset: Dataset,
    folder: Path,
    optimize: str,
    toolchain: Toolchain,
    jobs: int,
    progress: FetchProgress,
) -> None:
    progress(0, None, f"{dataset.archive.package}: download")
    archives = {} if dataset.crates else fetch_archives(dataset)
    archive = archives[""] if archives else SourceArchive(Path("Cargo.lock"), dataset.archive.sha256)
    started = time.monotonic()
    work = folder.parent / f".{folder.name}.work"
    shutil.rmtree(work, ignore_errors=True)  # of a killed process
    work.mkdir()
    try:
        metadata = {
            "project": dataset.name,
            "version": dataset.archive.version,
            "licence": dataset.licence or "unknown",
            "archive": archive.path.name,
            "archive_sha256": archive.sha256,
        }
        build = DatasetBuild(dataset, work, optimize, toolchain, metadata)
        source = work if dataset.crates else unpack_sources(dataset, archives, work / "source")
        if dataset.crates:
            recording = record_crates(build, progress)
        elif dataset.parts:
            recording = record_parts(build, source, jobs, progress)
        else:
            recording = record_package(build, source, progress)
        failures = list(recording.failures)
        if not recording.modules:
            raise CorpusError(f"{dataset.name}: no source compiles; {failures[0].source}: {failures[0].message}")
        different = wrong_digest(recording.corpus, dataset, optimize, toolchain)
        if different is not None and not failures:
            failures.append(RecordFailure(dataset.name, different))
        report: dict[str, Any] = {
            "modules": len(recording.modules),
            "lines": recording.lines,
            "languages": recording.languages,
            "failures": [asdict(failure) for failure in failures],
            "skipped": dict(recording.skipped),
            "archive_sha256": archive.sha256,
            "seconds": round(time.monotonic() - started, 1),
        }
        if dataset.programs:
            write_atomically(recording.corpus / PROGRAMS_FILE, dataset.programs.encode())
        write_atomically(recording.corpus / REPORT_FILE, (json.dumps(report, indent=2) + "\n").encode())
        if folder.exists():
            folder.rename(work / "replaced")  # open files of current readers stay valid
        recording.corpus.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
