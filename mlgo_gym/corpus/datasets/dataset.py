"""Datasets, cached as corpora: recordings of compiles, of a package's build by pip, and of crates by cargo."""

import json
import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from mlgo_clang.files import read_untrusted
from mlgo_clang.rustc_arguments import rustc_version
from mlgo_gym.cache import cache_directory, errors_name_cache, key_of, write_atomically
from mlgo_gym.compiler.process import run_bounded
from mlgo_gym.corpus.datasets.catalogue import Archive, Dataset, find_dataset, missing_files, wrong_digest
from mlgo_gym.corpus.datasets.sources import SourceArchive, compile_commands, fetch_source, unpack_sources
from mlgo_gym.corpus.driver import DEFAULT_TARGET, PORTABLE_TARGET, check_level, find_target, library_is_built
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.corpus.recording.recorder import Recorder, RecordFailure, Recording
from mlgo_gym.corpus.recording.shim_records import record_compile
from mlgo_gym.errors import CorpusError, NothingCompiledError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.temporary_folders import locked

REPORT_FILE = "recording.json"
PROGRAMS_FILE = "programs.toml"
_REVISION = 3
_LOCK_SECONDS = 7200.0  # another process may fetch and compile the dataset meanwhile
_PYPI = re.compile(r"pypi:([A-Za-z0-9][\w.-]*)==([\w.+!-]+)")
_log = logging.getLogger(__name__)
_LOG_TAIL = 2000
_STEPS = re.compile(r"\[(\d+)/(\d+)\]")

FetchProgress = Callable[[int, int | None, str], object]
"""Takes the numbers of finished and of all steps, or None if unknown, and a title."""

_LOCKED = re.compile(r'name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "(.+)"')

installed_rustc = lru_cache(maxsize=1)(rustc_version)
"""Version of the rustc on PATH and of its LLVM, on which the bitcode of crates depends; read once per process."""


@dataclass(frozen=True, slots=True)
class DatasetReport:
    """Result of making a dataset.

    Attributes:
        name: name that was requested.
        modules: number of modules.
        lines, languages, skipped: as in `Recording`.
        failures: sources that do not compile.
        seconds: wall time to unpack, compile and record, without the download.
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
    toolchain: Toolchain,
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
        toolchain: the clang.
        jobs: number of concurrent compilers; by default one per CPU.

    Raises:
        UnreachableError: the package index does not answer.
        CorpusError: there is no such dataset, level or target, it cannot be fetched, or nothing compiles. Other
            sources that do not compile are in `read_report()`.
    """
    check_level(optimize)
    dataset = _from_index(name) if name.startswith("pypi:") else find_dataset(name)
    if target != DEFAULT_TARGET:
        dataset = replace(dataset, target=find_target(target).name)
    folder = dataset_folder(dataset, optimize, toolchain)
    if not missing_parts(dataset, folder):
        return folder
    jobs = jobs or os.cpu_count() or 1
    with errors_name_cache(), locked(folder, _LOCK_SECONDS):
        if missing_parts(dataset, folder):
            if progress is None:
                _log.info("the dataset %s is fetched and compiled at -%s, once", name, optimize)
            _make(dataset, folder, optimize, toolchain, jobs, progress or (lambda *_: None))
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
    dataset: Dataset, folder: Path, optimize: str, toolchain: Toolchain, jobs: int, progress: FetchProgress
) -> None:
    progress(0, None, f"{dataset.archive.package}: download")
    pins = {} if dataset.crates else {"": dataset.archive, **dataset.needs}
    archives = {path: fetch_source(pin.package, pin.version, pin.sha256 or None) for path, pin in pins.items()}
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


@dataclass(frozen=True, slots=True)
class DatasetBuild:
    """The recording of a dataset: its entry, level, clang, metadata of all modules, and the folder for its files."""

    dataset: Dataset
    work: Path
    optimize: str
    toolchain: Toolchain
    metadata: Mapping[str, object]

    @property
    def corpus(self) -> Path:
        """Folder of the recorded corpus."""
        return self.work / "corpus"

    @property
    def log(self) -> Path:
        """File with the output of a build."""
        name = f"{self.dataset.name}-{self.dataset.archive.version}-{self.optimize}.log"
        return cache_directory() / "logs" / name

    def record(self, command: Sequence[str], folder: Path, progress: FetchProgress, **options: Any) -> Recording:
        """Record a build in a folder; an interrupted one leaves no corpus, since half a build is no dataset."""

        def title() -> str:
            waits = self.toolchain.bundled and not library_is_built()
            return f"{self.dataset.archive.package}: compile{', and libc++ at the first C++ link' if waits else ''}"

        def report(compiles: int) -> None:
            steps = _STEPS.findall(_tail(self.log))  # of Ninja and cargo
            done, total = map(int, steps[-1]) if steps else (compiles, None)
            progress(done, total, title())

        self.log.parent.mkdir(parents=True, exist_ok=True)
        progress(0, None, title())
        settings = {"optimize": self.optimize, "toolchain": self.toolchain, "metadata": self.metadata, **options}
        settings["progress"] = report
        return record_build(command, self.corpus, folder=folder, log=self.log, keep_interrupted=False, **settings)


def record_parts(build: DatasetBuild, source: Path, jobs: int, progress: FetchProgress) -> Recording:
    """Record the compiles of a dataset's entry in the folder of its sources."""
    commands = compile_commands(build.dataset, source)
    # The largest sources first, so that none of them is alone at the end.
    commands.sort(key=lambda command: -(source / command[1]).stat().st_size)
    killed: list[list[str]] = []
    target = build.dataset.target or PORTABLE_TARGET
    with Recorder(build.toolchain, build.optimize, source, target=target, parent=build.work) as recorder:

        def compile_one(command: list[str]) -> None:
            if record_compile(recorder.settings, command, str(source), "c", will_retry=True):
                killed.append(command)

        with ThreadPoolExecutor(jobs) as pool:
            try:
                for done, _ in enumerate(pool.map(compile_one, commands), start=1):
                    progress(done, len(commands), f"{build.dataset.name}: compile")
            finally:
                pool.shutdown(cancel_futures=True)  # an interrupt does not wait for pending compiles
        for command in killed:  # most likely memory was short while several ran
            record_compile(recorder.settings, command, str(source), "c")
        # The modules of a dataset are pinned, duplicates included.
        return recorder.collect(build.corpus, build.metadata, keep_duplicates=True)


def record_package(build: DatasetBuild, source: Path, progress: FetchProgress) -> Recording:
    """Record the wheel that pip builds from unpacked sources, in a new virtual environment.

    Raises `CorpusError` if there is no virtual environment, or nothing compiles.
    """
    archive = build.dataset.archive
    progress(0, None, f"{archive.package}: build environment")
    environment = build.work / "environment"
    created = run_bounded([sys.executable, "-m", "venv", str(environment)], writable=None, timeout=600, name="venv")
    if created.returncode != 0:
        raise CorpusError(
            f"{archive.package}: a virtual environment for its build cannot be created: "
            f"{created.stderr or created.stdout}; install Python's venv module"
        )
    pip = [str(environment / "bin" / "python"), "-m", "pip"]
    wheel = [*pip, "wheel", "--verbose", "--no-deps", "--wheel-dir", str(build.work / "wheel"), str(source)]
    package = f"{archive.package} {archive.version}"
    try:
        recording = build.record(wheel, source, progress, target=build.dataset.target or None, keep_objects=False)
    except NothingCompiledError as error:
        raise CorpusError(f"{package}: {explain_build(error.status, build.log, build.toolchain)}") from error
    if recording.status == 0:
        return recording
    failure = RecordFailure(f"the build of {package}", explain_build(recording.status, build.log, build.toolchain))
    return replace(recording, failures=(*recording.failures, failure))


def explain_build(status: int, log: Path, toolchain: Toolchain) -> str:
    """Return why a build failed or compiled nothing, from its exit status and the file with its output."""
    if status == 0:
        return (
            "the build succeeded and compiled no C or C++: it is pure Python, or builds another way (Rust, Fortran, "
            f"prebuilt libraries); its log is {log}"
        )
    message = f"the build ended with exit status {status}; its log is {log} and ends: {_tail(log)}"
    if toolchain.bundled:
        message = (
            "the bundled clang has the headers of libc and libc++ and ignores libraries of the system: record with an "
            f"installed clang (--clang clang-22, clang=) a build that needs these; {message}"
        )
    return message


def record_crates(build: DatasetBuild, progress: FetchProgress) -> Recording:
    """Record the crates of a family, without other crates that they depend on.

    Raises `CorpusError` without cargo, or if no crate compiles.
    """
    dataset, package = build.dataset, build.work / "package"
    if shutil.which("cargo") is None or not installed_rustc():
        raise CorpusError(f"{dataset.name}: expected cargo and rustc on PATH, got none; install Rust from rustup.rs")
    (package / "src").mkdir(parents=True)
    (package / "src/lib.rs").touch()
    # Each crate has its default features.
    dependencies = "".join(f'{crate.package} = "={crate.version}"\n' for crate in dataset.crates)
    (package / "Cargo.toml").write_text(
        '[package]\nname = "crates"\nversion = "0.0.0"\nedition = "2021"\n\n[workspace]\n\n'
        f'[profile.release]\ncodegen-units = 1\nlto = "off"\n\n[dependencies]\n{dependencies}',
        encoding="utf-8",
    )
    try:
        recording = build.record(
            ["cargo", "build", "--release", "--keep-going"],
            package,
            progress,
            # Settings of the user would make other modules.
            environment={
                "RUSTFLAGS": "",
                "CARGO_ENCODED_RUSTFLAGS": "",
                "CARGO_TARGET_DIR": str(build.work / "target"),
            },
            metadata={**build.metadata, "family": dataset.name},
            crates={crate.package for crate in dataset.crates},
        )
    except NothingCompiledError as error:
        raise CorpusError(
            f"{dataset.name}: no crate compiles; cargo fetches crates from crates.io or from the source that "
            f"$CARGO_HOME/config.toml sets, see docs/how_to/rust.md; the log {build.log} ends: {_tail(build.log)}"
        ) from error
    locked = (package / "Cargo.lock").read_text(encoding="utf-8")
    checksums = {(name, version): checksum for name, version, checksum in _LOCKED.findall(locked)}
    recorded = {name.partition("/")[0] for name in recording.modules}
    problems = {}
    for crate in dataset.crates:
        checksum = checksums.get((crate.package, crate.version), "none")
        if checksum != crate.sha256:
            problem = f"expected the checksum {crate.sha256}, got {checksum}; choose another source for cargo"
        elif crate.package not in recorded:
            problem = f"the build ended with exit status {recording.status}; its log is {build.log}"
        else:
            continue
        problems[crate.package] = RecordFailure(crate.package, problem)
    return replace(recording, failures=(*recording.failures, *(problems[name] for name in sorted(problems))))


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace").strip()[-_LOG_TAIL:] if log.exists() else ""
