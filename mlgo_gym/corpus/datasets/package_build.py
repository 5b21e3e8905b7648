"""Recording of a source distribution's own build, as pip runs it, and explanations of its failures."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.corpus.datasets.catalogue import Dataset
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
