"""Compilers that a build starts by their path, not by a name for which there is a shim: seen by a preloaded library.

`preload.c` has every program of the build start the recorder in their place. What a compiler by its path makes stays
its own: the recorder runs it as it was asked, and records what the chosen clang makes of the same arguments.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.session.bounded_run import run_bounded
from mlgo_gym.storage.cache import cache_directory, key_of, write_atomically
from mlgo_gym.storage.leftovers import temporary_folder

RECORDER = "mlgo-gym-by-path"
"""The shim that is started in the place of a compiler, with its path as the first argument."""

_SOURCE = Path(__file__).parent / "preload.c"
_FLAGS = ("-O1", "-fPIC", "-ffreestanding", "-fno-stack-protector", "-fvisibility=hidden", "-nostdinc", "-w", "-c")
_BITCODE = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
_IS_RELOCATABLE = b"\x01\x00"


def preload_variables(shims: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which a build's programs show the compilers that they start by path; none but on Linux.

    Args:
        shims: the folder of the shims, whose programs are left alone.
        environment: that of the build.

    Raises:
        CorpusError: the library cannot be made.
    """
    if sys.platform != "linux":
        return {}
    others = [each for each in environment.get("LD_PRELOAD", "").split(":") if each]
    return {
        "LD_PRELOAD": ":".join([*others, str(_library())]),
        "MLGO_SHIMS": str(shims),
        "MLGO_BY_PATH": str(shims / RECORDER),
    }


def _library() -> Path:
    """Return the library to preload, made once by the bundled compiler and its linker alone."""
    library = cache_directory() / "shims" / f"preload-{key_of(_SOURCE.read_text(encoding='utf-8'), _FLAGS)[:16]}.so"
    if library.is_file():
        return library
    with temporary_folder() as scratch:
        Path(scratch, "empty.c").touch()
        shared = [*bundled_command("ld.lld"), "-shared"]
        for command in (
            [*bundled_command("clang"), *_FLAGS, str(_SOURCE), "-o", "preload.o"],
            [*bundled_command("clang"), *_FLAGS, "empty.c", "-o", "empty.o"],
            # dlsym is in libdl with old C libraries; a library of that name alone has it named as needed.
            [*shared, "-soname", "libdl.so.2", "empty.o", "-o", "libdl.so"],
            [*shared, "--no-as-needed", "preload.o", "libdl.so", "-o", "preload.so"],
        ):
            answer = run_bounded(command, writable=(scratch,), folder=scratch, timeout=60)
            if answer.returncode != 0:
                raise CorpusError(
                    f"the library that shows compilers called by their path cannot be made: {answer.stderr.strip()}; "
                    "record without it: --no-by-path, by_path=False"
                )
        write_atomically(library, Path(scratch, "preload.so").read_bytes())
    library.chmod(0o755)
    return library


def is_gcc(path: str) -> bool:
    """Return whether a compiler is gcc, by the name of the program that a path leads to in the end."""
    name = Path(os.path.realpath(path)).name
    return ("gcc" in name or "g++" in name) and "clang" not in name


def objects_made_since(root: Path, start: float) -> Iterator[Path]:
    """Yield the object files below a folder that were written since a time."""
    for folder, _, files in os.walk(root):
        for file in files:
            path = Path(folder, file)
            if file.endswith((".o", ".obj")) and path.is_file() and path.stat().st_mtime >= start and _is_object(path):
                yield path


def _is_object(path: Path) -> bool:
    with path.open("rb") as file:
        beginning = file.read(18)
    return beginning.startswith(_BITCODE) or (beginning[:4] == b"\x7fELF" and beginning[16:18] == _IS_RELOCATABLE)
