"""Builds that datasets record: of a source distribution, as pip runs it, and of a family of Rust crates, by cargo."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from mlgo_clang.rustc_arguments import rustc_version
from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.corpus.datasets.catalogue import Archive, Dataset
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.corpus.recording.recorder import RecordFailure, Recording
from mlgo_gym.errors import CorpusError, NothingCompiledError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.cache import cache_directory

_LOG_TAIL = 2000
_MISSING = re.compile(
    r"(?P<header>[\w./+-]+\.h(?:pp|h)?)'? file not found|fatal error: (?P<other>[\w./+-]+\.h(?:pp|h)?): No such file"
    r"|unable to find (?:dynamic system )?library '?(?P<library>[\w.+-]+)"
    r"|(?:Dependency|Package|library|Could NOT find|Could not find) \"?'?(?P<package>[A-Za-z][\w.+-]+)'?\"?"
    r"(?: found: NO|, required by| not found| was not found| \(missing)"
)


def record_package(
    dataset: Dataset, source: Path, work: Path, optimize: str, toolchain: Toolchain, metadata: Mapping[str, object]
) -> Recording:
    """Record the wheel that pip builds from unpacked sources, in a new virtual environment, to `work/corpus`.

    Raises `CorpusError` if there is no virtual environment, or nothing compiles.
    """
    environment = work / "environment"
    # An existing pip can build for another environment, which is faster than to install one there.
    has_pip = _has_pip()
    options = ["--without-pip"] if has_pip else []
    command = [sys.executable, "-m", "venv", *options, str(environment)]
    created = run_bounded(command, writable=None, timeout=600, name="venv")
    if created.returncode != 0:
        raise CorpusError(
            f"{dataset.archive.package}: a virtual environment for its build cannot be created: "
            f"{created.stderr or created.stdout}; install Python's venv module"
        )
    python = str(environment / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python] if has_pip else [python, "-m", "pip"]
    wheel = [*pip, "wheel", "--no-deps", "--wheel-dir", str(work / "wheel")]
    package = f"{dataset.archive.package} {dataset.archive.version}"
    log = cache_directory() / "logs" / f"{dataset.name}-{dataset.archive.version}-{optimize}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        build = record_build(
            [*wheel, str(source)],
            work / "corpus",
            optimize=optimize,
            toolchain=toolchain,
            folder=source,
            target=dataset.target or None,
            metadata=metadata,
            log=log,
            keep_interrupted=False,  # the modules of half a build are no dataset
        )
    except NothingCompiledError as error:
        raise CorpusError(f"{package}: {explain_build(error.status, log, toolchain)}") from error
    if build.status == 0:
        return build
    failure = RecordFailure(f"the build of {package}", explain_build(build.status, log, toolchain))
    return replace(build, failures=(*build.failures, failure))


def explain_build(status: int, log: Path, toolchain: Toolchain) -> str:
    """Return why a build failed or compiled nothing, from its exit status and the file with its output."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if status == 0:
        return (
            "the build succeeded and compiled no C or C++: it is pure Python, or builds another way (Rust, Fortran, "
            f"prebuilt libraries); its log is {log}"
        )
    message = f"the build ended with exit status {status}; its log is {log} and ends: {text.strip()[-_LOG_TAIL:]}"
    missing = list(dict.fromkeys(name for match in _MISSING.finditer(text) for name in match.groups() if name))
    if missing:
        message = f"the compiler does not find {', '.join(missing[:5])}; {message}"
        if toolchain.bundled:
            message = (
                "the bundled clang has the headers of libc and libc++ and ignores libraries of the system: record "
                f"with an installed clang (--clang clang-22, clang=) where these are installed; {message}"
            )
    return message


def _has_pip() -> bool:
    """Return whether this Python has pip 22.3 or newer, with `--python`."""
    try:
        version = importlib.metadata.version("pip").split(".")
    except importlib.metadata.PackageNotFoundError:
        return False
    return tuple(int(part) if part.isdigit() else 0 for part in version[:2]) >= (22, 3)


_LOG_TAIL = 2000
_LOCKED = re.compile(r'name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "(.+)"')
_SOURCE = (
    "cargo fetches crates from crates.io or from the source that $CARGO_HOME/config.toml sets, see docs/how_to/rust.md"
)


installed_rustc = lru_cache(maxsize=1)(rustc_version)
"""Version of the rustc on PATH and of its LLVM, on which the bitcode of crates depends; read once per process."""


def record_crates(
    dataset: Dataset, work: Path, optimize: str, toolchain: Toolchain, metadata: Mapping[str, object]
) -> Recording:
    """Record the crates of a family to `work/corpus`, without other crates that they depend on.

    Raises `CorpusError` without cargo, or if no crate compiles.
    """
    if shutil.which("cargo") is None or not installed_rustc():
        raise CorpusError(f"{dataset.name}: expected cargo and rustc on PATH, got none; install Rust from rustup.rs")
    package = work / "package"
    (package / "src").mkdir(parents=True)
    (package / "src/lib.rs").touch()
    (package / "Cargo.toml").write_text(_package_of(dataset.crates), encoding="utf-8")
    log = cache_directory() / "logs" / f"{dataset.name}-{dataset.archive.version}-{optimize}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    # Settings of the user would make other modules.
    environment = {"RUSTFLAGS": "", "CARGO_ENCODED_RUSTFLAGS": "", "CARGO_TARGET_DIR": str(work / "target")}
    try:
        build = record_build(
            ["cargo", "build", "--release", "--keep-going"],
            work / "corpus",
            optimize=optimize,
            toolchain=toolchain,
            folder=package,
            environment=environment,
            metadata={**metadata, "family": dataset.name},
            log=log,
            keep_interrupted=False,
            crates={crate.package for crate in dataset.crates},
        )
    except NothingCompiledError as error:
        raise CorpusError(f"{dataset.name}: no crate compiles; {_SOURCE}; the log {log} ends: {_tail(log)}") from error
    problems = dict(_wrong_crates(dataset.crates, package / "Cargo.lock"))
    ended = f"the build ended with exit status {build.status}; its log is {log}"
    recorded = {name.partition("/")[0] for name in build.modules}
    problems = {crate.package: ended for crate in dataset.crates if crate.package not in recorded} | problems
    failures = [RecordFailure(name, problem) for name, problem in sorted(problems.items())]
    return replace(build, failures=(*build.failures, *failures))


def _package_of(crates: Iterable[Archive]) -> str:
    """Return the `Cargo.toml` of a package that depends on crates, with their default features."""
    dependencies = "".join(f'{crate.package} = "={crate.version}"\n' for crate in crates)
    return (
        '[package]\nname = "crates"\nversion = "0.0.0"\nedition = "2021"\n\n[workspace]\n\n'
        f'[profile.release]\ncodegen-units = 1\nlto = "off"\n\n[dependencies]\n{dependencies}'
    )


def _wrong_crates(crates: Iterable[Archive], lock: Path) -> Iterator[tuple[str, str]]:
    """Yield name and problem of each crate whose checksum in a `Cargo.lock` is not the pinned one."""
    found = {(name, version): checksum for name, version, checksum in _LOCKED.findall(lock.read_text(encoding="utf-8"))}
    for crate in crates:
        checksum = found.get((crate.package, crate.version), "none")
        if checksum != crate.sha256:
            yield (
                crate.package,
                f"expected the checksum {crate.sha256}, got {checksum}; choose another source for cargo",
            )


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace").strip()[-_LOG_TAIL:] if log.exists() else ""
