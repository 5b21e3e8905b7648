"""Libraries that the bundled compiler builds: one that intercepts compilers, and those that it links with."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.corpus.driver import linker_command
from mlgo_gym.corpus.recording.shim_links import file_kind
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from mlgo_gym.storage.cache import cache_directory, key_of, write_atomically
from mlgo_gym.storage.temporary_folders import temporary_folder

PATH_SHIM = "mlgo-gym-by-path"
"""Name of the shim that is started instead of a compiler, with the compiler's path as the first argument."""

_SOURCE = Path(__file__).parent / "preload.c"
_FLAGS = ("-O1", "-fPIC", "-ffreestanding", "-fno-stack-protector", "-fvisibility=hidden", "-nostdinc", "-w", "-c")


def preload_variables(shims: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that intercept compilers started by path; empty on systems other than Linux.

    Programs in the folder `shims` are not intercepted; `environment` is that of the build.
    """
    if sys.platform != "linux":
        return {}
    return {
        "LD_PRELOAD": ":".join(filter(None, (environment.get("LD_PRELOAD"), str(_library())))),
        "MLGO_SHIMS": str(shims),
        "MLGO_BY_PATH": str(shims / PATH_SHIM),
    }


def _library() -> Path:
    """Return the library to preload, built once by the bundled compiler and its linker."""
    library = cache_directory() / "shims" / f"preload-{key_of(_SOURCE.read_text(encoding='utf-8'), _FLAGS)[:16]}.so"
    if library.is_file():
        return library
    with temporary_folder() as scratch:
        Path(scratch, "empty.c").touch()
        shared = [*bundled_command("ld.lld"), "-shared"]
        for command in (
            [*bundled_command("clang"), *_FLAGS, str(_SOURCE), "-o", "preload.o"],
            [*bundled_command("clang"), *_FLAGS, "empty.c", "-o", "empty.o"],
            # Old C libraries have dlsym in libdl; an empty library of that name adds it to the needed ones.
            [*shared, "-soname", "libdl.so.2", "empty.o", "-o", "libdl.so"],
            [*shared, "--no-as-needed", "preload.o", "libdl.so", "-o", "preload.so"],
        ):
            answer = run_bounded(command, writable=(scratch,), folder=scratch, timeout=60)
            if answer.returncode != 0:
                raise CorpusError(
                    f"the library that intercepts compilers cannot be built: {answer.stderr.strip()}; record without "
                    "it: --no-intercept-paths, intercept_paths=False"
                )
        write_atomically(library, Path(scratch, "preload.so").read_bytes())
    library.chmod(0o755)
    return library


def is_gcc(path: str) -> bool:
    """Return whether a compiler is gcc, by the name of the resolved program."""
    name = Path(os.path.realpath(path)).name
    return ("gcc" in name or "g++" in name) and "clang" not in name


def objects_written_since(root: Path, start: float) -> Iterator[Path]:
    """Yield the object files below a folder that were written since a time, in seconds of the epoch."""
    for folder, _, files in os.walk(root):
        for path in (Path(folder, file) for file in files if file.endswith((".o", ".obj"))):
            if path.is_file() and path.stat().st_mtime >= start and file_kind(str(path), is_word=False) == "object":
                yield path


MESSAGE = (
    "the bundled compiler has not built libc++ yet: the first C++ link on a machine takes one to four minutes of CPU "
    "time; run `mlgo-gym corpus prepare` first"
)

_CACHE = re.compile(r'\.global_cache_dir = "((?:[^"\\]|\\.)*)"')
_PROGRAMS = {
    "c": ("program.c", "int main(void) { return 0; }\n"),
    "c++": ("program.cpp", "#include <string>\nint main(int n, char **) { return std::string(n, 'x').size() == 7; }\n"),
}
_OPTIONS = (("-O0",), ("-O2",), ("-Os",), ("-O2", "-shared", "-fPIC"))


def library_is_built() -> bool:
    """Return whether the cache of the bundled compiler contains libc++."""
    zig, mode = bundled_command("env")
    answer = run_bounded([zig, mode], writable=None, timeout=60, name="the bundled compiler")
    match = _CACHE.search(answer.stdout)
    return match is not None and any(Path(match[1]).glob("o/*/libc++.a"))


def build_libraries(toolchain: Toolchain) -> Iterator[str]:
    """Link small programs so that all libraries of the bundled clang are built; yield a description before each link.

    Raises `CorpusError` if a link fails.
    """
    if not toolchain.bundled:
        return
    with temporary_folder() as scratch:
        for mode, (name, text) in _PROGRAMS.items():
            Path(scratch, name).write_text(text, encoding="utf-8")
            for options in _OPTIONS:
                yield f"{'C++' if mode == 'c++' else 'C'} {' '.join(options)}"
                command = [*linker_command(toolchain, mode), *options, name, "-o", "program"]
                answer = run_bounded(command, writable=None, folder=scratch, name="the bundled compiler")
                if answer.returncode != 0:
                    raise CorpusError(
                        f"the bundled compiler cannot link a program with {' '.join(options)}; it printed: "
                        f"{answer.stderr.strip()[-2000:]}"
                    )
