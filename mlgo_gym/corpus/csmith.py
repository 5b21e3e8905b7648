"""Random C programs by csmith, one per seed; generated and compiled on first use and cached.

csmith has to be on `PATH`; its headers are searched next to it.
"""

from __future__ import annotations

import os
import re
import shutil
from functools import cached_property
from pathlib import Path

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.driver import compile_to_bitcode, libc_include_flags, portable_flags, recorded_flags
from mlgo_gym.corpus.folder import read_command, read_metadata, write_command, write_metadata
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.targets import find_target
from mlgo_gym.errors import CorpusError, ToolchainError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.cache import cache_directory, key_of, sha256_of
from mlgo_gym.storage.temporary_folders import process_folder, temporary_folder

_SEEDS = 2**32
_TIMEOUT = 60


def csmith_corpus(spec: str, toolchain: Toolchain, optimize: str, target: str) -> Corpus:
    """Return the random programs of `SEED:COUNT`; module `n` has the seed SEED + n.

    Raises `CorpusError` for malformed numbers, or if csmith or its headers are not installed.
    """
    match = re.fullmatch(r"(\d{1,10}):(\d{1,10})", spec)
    first, count = map(int, match.groups()) if match else (0, 0)
    if not 1 <= count <= first + count <= _SEEDS:
        raise CorpusError(
            f"expected csmith:SEED:COUNT with COUNT ≥ 1 and seeds below {_SEEDS}, got csmith:{spec}; correct it"
        )
    program = shutil.which("csmith")
    if program is None:
        raise CorpusError("expected csmith on PATH, got none; install it (Debian: apt install csmith libcsmith-dev)")
    driver = [*portable_flags(find_target(target)), f"-{optimize}"]
    headers = [*libc_include_flags(toolchain, find_target(target)), "-isystem", str(_headers(Path(program)))]
    names = [str(seed) for seed in range(first, first + count)]
    return Corpus(f"csmith:{spec}", _Programs(names, program, toolchain, driver, headers), origin="csmith")


class _Programs:
    def __init__(
        self, names: list[str], program: str, toolchain: Toolchain, driver: list[str], headers: list[str]
    ) -> None:
        self.names = names
        self._program, self._toolchain, self._driver = program, toolchain, driver
        self._flags = [*driver, "-std=c11", *headers]

    def load(self, name: str) -> Module:
        bitcode, flags = self.bitcode(name), read_command(self._folder / "flags.cmd")
        return Module(name, bitcode, flags, metadata=read_metadata(self._folder, name))

    def bitcode(self, name: str) -> Path:
        bitcode = self._folder / f"{name}.bc"
        if not bitcode.exists():
            with process_folder(self._folder, ".making-") as scratch:
                self._generate(scratch, name)
        return bitcode

    @cached_property
    def _folder(self) -> Path:
        # csmith leaves a file in its working directory.
        with temporary_folder() as scratch:
            answer = run_bounded([self._program, "--version"], writable=(scratch,), folder=scratch, timeout=_TIMEOUT)
        key = key_of(self._toolchain.identity, answer.stdout, self._driver)
        folder = cache_directory() / "csmith" / f"{self._toolchain.version_text}{self._driver[-1]}-{key[:16]}"
        if not (folder / "flags.cmd").exists():
            write_command(folder / "flags.cmd", recorded_flags("c", self._flags, self._toolchain))
        return folder

    def _generate(self, scratch: Path, name: str) -> None:
        source = scratch / f"{name}.c"
        command = [self._program, "--seed", name, "--output", str(source)]
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
            "bitcode_sha256": sha256_of(bitcode),
            "language": "C",
            "lines": source.read_bytes().count(b"\n"),
            "optimize": self._driver[-1][1:],
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
