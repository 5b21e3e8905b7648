"""Datasets: sources fetched by their digest, compiled by the recorder, kept as corpora in the cache."""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import logging
import os
import re
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from mlgo_gym.corpus.build_log import explain_build
from mlgo_gym.corpus.catalogue import Archive, Dataset, dataset_names, find_dataset
from mlgo_gym.corpus.driver_options import PORTABLE_TARGET
from mlgo_gym.corpus.pins import missing_files, wrong_digest
from mlgo_gym.corpus.record import record_build
from mlgo_gym.corpus.recorder import LEVELS, Recorder, RecordFailure, Recording
from mlgo_gym.corpus.shim_compiles import record_compile
from mlgo_gym.corpus.sources import compile_commands, fetch_archives, unpack_sources
from mlgo_gym.errors import CorpusError, NothingCompiledError
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain
from mlgo_gym.session.bounded_run import run_bounded
from mlgo_gym.storage.cache import cache_directory, key_of, write_atomically
from mlgo_gym.storage.foreign_file import read_foreign

REPORT_FILE = "recording.json"
_REVISION = 3
_PYPI = re.compile(r"pypi:([A-Za-z0-9][\w.-]*)==([\w.+!-]+)")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DatasetReport:
    """How a dataset was made.

    Attributes:
        name: as it was asked for.
        folder: its corpus.
        modules: the number of modules.
        lines: source lines of the modules, counting each source once.
        languages: modules per source language, `C` and `C++`.
        failures: what does not compile.
        seconds: how long it took to unpack, compile and record, without the download, when it was made.
        processor_seconds: the processor time of this process's children meanwhile: of the compilers.
        jobs: how many compilers ran at once; None where the package's own build decided.
        left_out: how many compiles were seen and not recorded, by reason.
    """

    name: str
    folder: Path
    modules: int
    lines: int
    languages: Mapping[str, int]
    failures: tuple[RecordFailure, ...]
    seconds: float
    processor_seconds: float
    jobs: int | None
    left_out: Mapping[str, int] = field(default_factory=dict)


def fetch_dataset(
    name: str,
    *,
    optimize: str = "Oz",
    toolchain: Toolchain | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Path:
    """Return the corpus folder of a dataset; fetched, compiled and recorded when it is not in the cache.

    Any number of processes can ask at once: one makes it, the others wait. What was made and lacks something, because
    a compiler was killed or a file was deleted, is made again.

    Args:
        name: a name in the catalogue, or `pypi:NAME==VERSION` for any source distribution with C or C++ in it, which
            is built as pip would build it, in an environment of its own.
        optimize: the level it is recorded at, one of `LEVELS`.
        toolchain: the clang that records.
        jobs: how many compilers run at once; all processors if None.
        progress: called with the number of sources compiled so far and the number of all.

    Raises:
        UnreachableError: it is to be fetched, and the package index does not answer.
        CorpusError: there is no such dataset or level, it cannot be fetched, or nothing in it compiles. Sources that
            do not compile are left out; `read_report` tells of them.
        ToolchainError: there is no usable clang.
    """
    if optimize not in LEVELS:
        raise CorpusError(f"datasets come at {', '.join(LEVELS)}, not at {optimize!r}; choose one of these")
    toolchain = toolchain or find_toolchain()
    dataset = _from_index(name) if name.startswith("pypi:") else find_dataset(name)
    folder = dataset_folder(dataset, optimize, toolchain)
    if not lacks(dataset, folder):
        return folder
    jobs = jobs or os.cpu_count() or 1
    try:
        with _locked(folder):
            if lacks(dataset, folder):
                if progress is None:
                    _log.info("the dataset %s is fetched and compiled at -%s, this once", name, optimize)
                _make(dataset, folder, optimize, toolchain, jobs, progress)
    except OSError as error:
        raise CorpusError(
            f"{name} was to be made in {cache_directory()}: {error}; make room or the folder writable, or set "
            "$MLGO_CACHE to another"
        ) from error
    return folder


def lacks(dataset: Dataset, folder: Path) -> list[str]:
    """Return what a dataset in the cache lacks, or was not compiled because its compiler was killed; all of it, if so.

    A dataset that lacks something is made anew by `fetch_dataset`, and replaced once that is done.
    """
    try:
        report = json.loads(read_foreign(folder / REPORT_FILE))
    except (OSError, ValueError):
        return [REPORT_FILE]
    killed = [failure["source"] for failure in report["failures"] if failure.get("killed")]
    return killed or missing_files(folder, dataset)


def incomplete(folder: Path) -> list[str]:
    """Return what a corpus lacks that `fetch_dataset` has made, wherever it lies: nothing for any other folder.

    A source that does not compile is not among that, unless the dataset pins its module.
    """
    try:
        digest = json.loads(read_foreign(folder / REPORT_FILE)).get("archive_sha256")
    except (OSError, ValueError, AttributeError):
        return []
    for name in dataset_names():
        dataset = find_dataset(name)
        if dataset.archive.sha256 == digest:
            return lacks(dataset, folder)
    return []


def dataset_folder(dataset: Dataset, optimize: str, toolchain: Toolchain) -> Path:
    """Return where the corpus of a dataset lies, once it is made."""
    key = key_of(_REVISION, dataset.recipe, toolchain.version_text, toolchain.bundled)[:8]
    level = f"{optimize}-clang-{toolchain.version_text}-{key}"
    return cache_directory() / "datasets" / f"{dataset.name}-{dataset.archive.version}" / level


def read_report(name: str, folder: Path) -> DatasetReport:
    """Return how the dataset in `folder`, as `fetch_dataset` returns it, was made."""
    content = json.loads(read_foreign(folder / REPORT_FILE))
    content["failures"] = tuple(RecordFailure(**failure) for failure in content["failures"])
    known = {each.name: content[each.name] for each in fields(DatasetReport) if each.name in content}
    return DatasetReport(name=name, folder=folder, **known)


def _make(
    dataset: Dataset,
    folder: Path,
    optimize: str,
    toolchain: Toolchain,
    jobs: int,
    progress: Callable[[int, int], object] | None,
) -> None:
    archives = fetch_archives(dataset)
    archive = archives[""]
    started, used = time.monotonic(), _processor_seconds()
    work = folder.parent / f".{folder.name}.work"
    shutil.rmtree(work, ignore_errors=True)  # what a killed process left
    work.mkdir()
    try:
        source = unpack_sources(dataset, archives, work / "source")
        metadata = {
            "project": dataset.name,
            "version": dataset.archive.version,
            "licence": dataset.licence or "unknown",
            "archive": archive.path.name,
            "archive_sha256": archive.sha256,
        }
        if dataset.parts:
            recording = _compile(dataset, source, work / "corpus", optimize, toolchain, metadata, jobs, progress)
        else:
            recording = _build(dataset, source, work, optimize, toolchain, metadata)
        failures = list(recording.failures)
        if not recording.modules:
            raise CorpusError(f"{dataset.name}: nothing in it compiles; {failures[0].source}: {failures[0].message}")
        different = wrong_digest(recording.corpus, dataset, optimize, toolchain)
        if different is not None and not failures:
            failures.append(RecordFailure(dataset.name, different))
        report = {
            "modules": len(recording.modules),
            "lines": recording.lines,
            "languages": recording.languages,
            "failures": [asdict(failure) for failure in failures],
            "left_out": dict(recording.left_out),
            "archive_sha256": archive.sha256,
            "seconds": round(time.monotonic() - started, 1),
            "processor_seconds": round(_processor_seconds() - used, 1),
            "jobs": jobs if dataset.parts else None,
        }
        write_atomically(recording.corpus / REPORT_FILE, (json.dumps(report, indent=2) + "\n").encode())
        if folder.exists():
            # It lacks something. Whoever reads it now keeps what is open, and finds all of it the next time.
            folder.rename(work / "replaced")
        recording.corpus.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _processor_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def _compile(
    dataset: Dataset,
    source: Path,
    output: Path,
    optimize: str,
    toolchain: Toolchain,
    metadata: Mapping[str, object],
    jobs: int,
    progress: Callable[[int, int], object] | None,
) -> Recording:
    commands = compile_commands(dataset, source)
    with Recorder(toolchain, optimize, source, target=PORTABLE_TARGET, parent=output.parent) as recorder:
        # The largest first, so that none of them is left for the end.
        commands.sort(key=lambda command: -(source / command[1]).stat().st_size)

        killed: list[list[str]] = []

        def compile_one(command: list[str]) -> None:
            if record_compile(recorder.settings, command, str(source), "c", once_more=True):
                killed.append(command)

        with ThreadPoolExecutor(jobs) as pool:
            try:
                for done, _ in enumerate(pool.map(compile_one, commands), start=1):
                    if progress is not None:
                        progress(done, len(commands))
            finally:
                pool.shutdown(cancel_futures=True)  # an interruption waits for no compile that has not begun
        for command in killed:
            # Most likely memory was short while several ran.
            record_compile(recorder.settings, command, str(source), "c")
        # What a dataset holds is pinned: also what is there twice.
        return recorder.collect(output, metadata, keep_duplicates=True)


def _from_index(name: str) -> Dataset:
    match = _PYPI.fullmatch(name)
    if match is None:
        raise CorpusError(f"{name}: pypi:NAME==VERSION was wanted, as in pypi:zstandard==0.25.0; give a version")
    package, version = match.groups()
    package = re.sub(r"[-_.]+", "-", package).lower()  # PEP 503
    return Dataset(f"pypi-{package}", Archive(package, version, sha256=""), licence="", summary="")


def _build(
    dataset: Dataset,
    source: Path,
    work: Path,
    optimize: str,
    toolchain: Toolchain,
    metadata: Mapping[str, object],
) -> Recording:
    """Record the wheel that pip builds from unpacked sources, in a virtual environment made for that."""
    environment = work / "environment"
    # The pip at hand can build for another environment; to install one there takes longer than most packages.
    has_pip = _has_pip()
    options = ["--without-pip"] if has_pip else []
    command = [sys.executable, "-m", "venv", *options, str(environment)]
    made = run_bounded(command, writable=None, timeout=600, name="venv")
    if made.returncode != 0:
        raise CorpusError(
            f"{dataset.archive.package} is built in a virtual environment, and none can be made; install Python's venv "
            f"module: {made.stderr or made.stdout}"
        )
    python = str(environment / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python] if has_pip else [python, "-m", "pip"]
    wheel = [*pip, "wheel", "--no-deps", "--wheel-dir", str(work / "wheel")]
    what = f"{dataset.archive.package} {dataset.archive.version}"
    log = cache_directory() / "logs" / f"{dataset.name}-{dataset.archive.version}-{optimize}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        build = record_build(
            [*wheel, str(source)],
            work / "corpus",
            optimize=optimize,
            toolchain=toolchain,
            folder=source,
            metadata=metadata,
            log=log,
        )
    except NothingCompiledError as error:
        raise CorpusError(f"{what}: {explain_build(error.status, log, toolchain)}") from error
    if build.status == 0:
        return build.recording
    failure = RecordFailure(f"the build of {what}", explain_build(build.status, log, toolchain))
    return replace(build.recording, failures=(*build.recording.failures, failure))


def _has_pip() -> bool:
    """Return whether this Python has a pip that knows `--python`: 22.3 and newer."""
    try:
        version = importlib.metadata.version("pip").split(".")
    except importlib.metadata.PackageNotFoundError:
        return False
    return tuple(int(part) if part.isdigit() else 0 for part in version[:2]) >= (22, 3)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
