"""Random C programs by csmith, one per seed; generated and compiled on first use and cached.

csmith has to be on `PATH`; its headers are searched next to it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import overload

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.driver import compile_to_bitcode, libc_include_flags, portable_flags, recorded_flags
from mlgo_gym.corpus.folder import read_command, read_metadata, write_command, write_metadata
from mlgo_gym.corpus.module import INFINITE, Module
from mlgo_gym.corpus.targets import DEFAULT_TARGET, find_target
from mlgo_gym.errors import CorpusError, ToolchainError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.cache import cache_directory, key_of
from mlgo_gym.storage.temporary_folders import process_folder, temporary_folder

_MAX_SEED = 2**32 - 1
_TIMEOUT = 60


def csmith_corpus(spec: str, toolchain: Toolchain, *, optimize: str = "Oz", target: str = DEFAULT_TARGET) -> Corpus:
    """Return random programs for `SEED:COUNT`, or infinitely many for `SEED`; module `n` has the seed SEED + n.

    Raises `CorpusError` for malformed numbers, or if csmith or its headers are not installed.
    """
    first, _, second = spec.partition(":")
    try:
        seed, count = int(first), int(second) if second else INFINITE
    except ValueError:
        raise CorpusError(f"expected csmith:SEED or csmith:SEED:COUNT with numbers, got csmith:{spec}") from None
    if not 0 <= seed <= _MAX_SEED or not 1 <= count <= INFINITE:
        raise CorpusError(f"expected a csmith seed of 0 to {_MAX_SEED} and a count ≥ 1, got csmith:{spec}")
    programs = _Programs(seed, count, toolchain, optimize, target)
    return Corpus(f"csmith:{spec}", programs, origin="csmith")


class _Seeds(Sequence[str]):
    """Module names: the seeds, generated on request."""

    def __init__(self, first: int, count: int) -> None:
        self._range = range(first, first + count)

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [str(number) for number in self._range[index]]
        return str(self._range[index])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.isdecimal() and int(name) in self._range and str(int(name)) == name


class _Programs:
    def __init__(self, seed: int, count: int, toolchain: Toolchain, optimize: str, target: str) -> None:
        self.names: Sequence[str] = _Seeds(seed, count)
        self._toolchain, self._optimize, self._target = toolchain, optimize, find_target(target)
        program = shutil.which("csmith")
        if program is None:
            raise CorpusError(
                "expected csmith on PATH, got none; install it (Debian: apt install csmith libcsmith-dev)"
            )
        self._program = program
        self._headers = _headers(Path(program))

    def load(self, name: str) -> Module:
        bitcode, _ = self.files(name)
        return Module(
            name, bitcode, read_command(self._folder / "flags.cmd"), metadata=read_metadata(self._folder, name)
        )

    def files(self, name: str) -> tuple[Path, ...]:
        bitcode = self._folder / f"{name}.bc"
        if not bitcode.exists():
            with process_folder(self._folder, ".making-") as scratch:
                self._generate(scratch, name)
        return bitcode, self._folder / f"{name}.json"

    @cached_property
    def _flags(self) -> list[str]:
        headers = ["-isystem", str(self._headers)]
        libc = libc_include_flags(self._toolchain, self._target)
        return [*portable_flags(self._target), f"-{self._optimize}", "-std=c11", *libc, *headers]

    @cached_property
    def _folder(self) -> Path:
        # csmith leaves a file in its working directory.
        with temporary_folder() as scratch:
            answer = run_bounded([self._program, "--version"], writable=(scratch,), folder=scratch, timeout=_TIMEOUT)
        key = key_of(self._toolchain.identity, answer.stdout, self._optimize, portable_flags(self._target))
        folder = cache_directory() / "csmith" / f"{self._toolchain.version_text}-{self._optimize}-{key[:16]}"
        if not (folder / "flags.cmd").exists():
            write_command(folder / "flags.cmd", recorded_flags("c", self._flags, self._toolchain))
        return folder

    def _generate(self, scratch: Path, name: str) -> None:
        source = scratch / f"{name}.c"
        command = [self._program, "--seed", str(int(name) % (_MAX_SEED + 1)), "--output", str(source)]
        try:
            answer = run_bounded(command, writable=(scratch,), folder=scratch, timeout=_TIMEOUT, name="csmith")
        except ToolchainError as error:
            raise CorpusError(f"program {name} cannot be generated: {error}; choose another seed") from error
        if answer.returncode != 0 or not source.exists():
            raise CorpusError(f"csmith cannot generate program {name}; it printed: {answer.stderr.strip()[-1000:]}")
        bitcode = scratch / f"{name}.bc"
        compile_to_bitcode(source.name, bitcode, self._flags, self._toolchain, folder=source.parent)
        metadata = {
            "source": source.name,
            "bitcode_sha256": hashlib.sha256(bitcode.read_bytes()).hexdigest(),
            "language": "C",
            "lines": source.read_bytes().count(b"\n"),
            "optimize": self._optimize,
            "project": "csmith",
        }
        write_metadata(self._folder, name, metadata)
        bitcode.replace(self._folder / f"{name}.bc")


def _headers(program: Path) -> Path:
    home = os.environ.get("CSMITH_HOME")
    roots = [Path(home)] if home else [program.resolve().parent.parent, Path("/usr"), Path("/usr/local")]
    for root in roots:
        for folder in (root / "include", *sorted(root.glob("include/csmith*")), root / "runtime"):
            if (folder / "csmith.h").exists():
                return folder
    raise CorpusError(
        f"expected csmith.h below {', '.join(map(str, roots))}, got none; install it (Debian: apt install "
        "libcsmith-dev) or set $CSMITH_HOME"
    )
