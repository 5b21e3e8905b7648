"""Finds clang and its version, which the cache keeps, so that a second process starts none."""

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mlgo_gym.cache import JsonCache, key_of, sha256_of
from mlgo_gym.errors import ToolchainError

OLDEST_SUPPORTED = 17
"""The first clang with LLVM's InteractiveModelRunner."""

_VERSION = re.compile(r"clang version (\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A clang with an interactive mode.

    Attributes:
        command: program and first arguments: `(".../zig", "clang")` or `("/usr/bin/clang-22",)`.
        identity: key of the binary, for caches; it changes with the binary.
        bundled: whether it is the clang inside the `ziglang` wheel.
    """

    command: tuple[str, ...]
    version: tuple[int, int, int]
    identity: str
    bundled: bool

    @property
    def version_text(self) -> str:
        """The version as clang writes it, for instance `22.1.8`."""
        return ".".join(map(str, self.version))

    @property
    def binary(self) -> Path:
        """The program that runs, links followed."""
        return Path(self.command[0]).resolve()

    def digest(self) -> str:
        """Return the SHA-256 of the binary, in hexadecimal, read once and remembered on disk."""
        records = JsonCache("toolchain-digests")
        return str(records.remembered(self.identity, lambda: {"sha256": sha256_of(self.binary)})["sha256"])

    def run(self, arguments: list[str], *, timeout: float = 300.0) -> subprocess.CompletedProcess[str]:
        """Run clang to its end and return what it wrote; the caller looks at the exit status.

        Raises `ToolchainError` if it cannot be started, or runs longer than `timeout` seconds.
        """
        return _run([*self.command, *arguments], timeout)


def _run(words: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace"}
    # It edits the driver's command lines, of which results are kept.
    environment = {name: value for name, value in os.environ.items() if name != "CCC_OVERRIDE_OPTIONS"}
    try:
        return subprocess.run(words, **streams, env=environment, timeout=timeout, check=False)
    except OSError as error:
        raise ToolchainError(f"{words[0]} cannot be started: {error}; give the path of a clang") from error
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(
            f"clang was to finish within {timeout:g} s and did not: {' '.join(words)[:500]}; choose another clang"
        ) from error


def find_toolchain(clang: str | None = None) -> Toolchain:
    """Return a clang by its path or its name on `PATH`; `"bundled"` is the clang of the `ziglang` wheel.

    Without a name `$MLGO_CLANG` decides, and without that the bundled clang is used. Raises `ToolchainError` if there
    is no such program, it is no clang, or it is older than 17.
    """
    name = clang or os.environ.get("MLGO_CLANG") or "bundled"
    if name == "bundled":
        command = bundled_command()
    elif program := shutil.which(name):
        command = (str(Path(program).absolute()),)
    else:
        raise ToolchainError(
            f"no program {name!r} (from clang= or $MLGO_CLANG) is on PATH or executable; give the path of a clang "
            f"{OLDEST_SUPPORTED} or newer, or leave it out to use the bundled one"
        )
    binary = Path(command[0]).resolve()
    status = binary.stat()
    return _identify(command, str(binary), status.st_size, status.st_mtime_ns)


def bundled_command(mode: str = "clang") -> tuple[str, ...]:
    """Return the command of the `ziglang` wheel's `clang`, `cc`, `c++` or `ar`; errors as `bundled_folder()`."""
    return (str(bundled_folder() / "zig"), mode)


@lru_cache(maxsize=1)
def bundled_folder() -> Path:
    """Return the folder of the `ziglang` wheel, with headers of libc and libc++ in `lib`, or raise `ToolchainError`."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise ToolchainError(
            "the bundled compiler is missing: pip install ziglang, or choose another clang with "
            "clang=PATH or $MLGO_CLANG"
        )
    return Path(spec.origin).parent


@lru_cache(maxsize=64)
def _identify(command: tuple[str, ...], binary: str, size: int, mtime_ns: int) -> Toolchain:
    key = key_of("version", command[1:], binary, size, mtime_ns)

    def compute() -> dict[str, str]:
        answer = _run([*command, "--version"], timeout=60)
        return {"version": answer.stdout + answer.stderr, "binary": binary}

    text = str(JsonCache("toolchains").remembered(key, compute)["version"])
    match = _VERSION.search(text)
    if match is None:
        raise ToolchainError(
            f"{' '.join(command)} is not clang: --version printed {text.strip()[:200]!r}; give the path of a clang"
        )
    version = (int(match[1]), int(match[2]), int(match[3]))
    if version[0] < OLDEST_SUPPORTED:
        raise ToolchainError(
            f"clang {OLDEST_SUPPORTED} or newer is needed, {command[0]} is {match[0]}: older ones have no interactive "
            "mode; leave clang= out to use the bundled one"
        )
    bundled = importlib.util.find_spec("ziglang") is not None and binary == str((bundled_folder() / "zig").resolve())
    return Toolchain(command, version, key, bundled)
