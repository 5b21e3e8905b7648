"""Families of Rust crates, which cargo fetches from its configured source and compiles."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from mlgo_clang.rustc_arguments import rustc_version
from mlgo_gym.corpus.datasets.catalogue import Archive, Dataset
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.corpus.recording.recorder import RecordFailure, Recording
from mlgo_gym.errors import CorpusError, NothingCompiledError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.cache import cache_directory

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
