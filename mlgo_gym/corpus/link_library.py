"""The libraries that the bundled compiler links with: built from their sources at the first link of each kind.

The wheel brings the sources of libc++, libc++abi, libunwind and compiler-rt, and no library. The first link of a C++
program compiles some 90 files of these, a minute or more of processor time, into the cache of `zig`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mlgo_gym.corpus.driver_options import linker_command
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from mlgo_gym.session.bounded_run import run_bounded
from mlgo_gym.storage.leftovers import temporary_folder

MESSAGE = (
    "the bundled compiler has built no libc++ yet: the first C++ link on a machine compiles it, one to four minutes of "
    "processor time; `mlgo-gym corpus prepare` does that beforehand"
)

_CACHE = re.compile(r'\.global_cache_dir = "((?:[^"\\]|\\.)*)"')
_PROGRAMS = {
    "c": ("program.c", "int main(void) { return 0; }\n"),
    "c++": ("program.cpp", "#include <string>\nint main(int n, char **) { return std::string(n, 'x').size() == 7; }\n"),
}
_WAYS = (("-O0",), ("-O2",), ("-Os",), ("-O2", "-shared", "-fPIC"))


def library_is_built() -> bool:
    """Return whether the bundled compiler finds a libc++ of its own making in its cache.

    Raises:
        ToolchainError: the bundled compiler is missing.
    """
    zig, mode = bundled_command("env")
    answer = run_bounded([zig, mode], writable=None, timeout=60, name="the bundled compiler")
    match = _CACHE.search(answer.stdout)
    return match is not None and any(Path(match[1]).glob("o/*/libc++.a"))


def build_libraries(toolchain: Toolchain) -> Iterator[str]:
    """Link small programs as builds do, so that all libraries are built; yield what is linked before each.

    Args:
        toolchain: the bundled clang; another links with the machine's libraries, and there is nothing to do.

    Raises:
        CorpusError: a link fails.
    """
    if not toolchain.bundled:
        return
    with temporary_folder() as scratch:
        for mode, (name, text) in _PROGRAMS.items():
            Path(scratch, name).write_text(text, encoding="utf-8")
            for way in _WAYS:
                yield f"{'C++' if mode == 'c++' else 'C'} {' '.join(way)}"
                command = [*linker_command(toolchain, mode), *way, name, "-o", "program"]
                answer = run_bounded(command, writable=None, folder=scratch, name="the bundled compiler")
                if answer.returncode != 0:
                    raise CorpusError(
                        f"a program was to be linked with {' '.join(way)}, and the bundled compiler said: "
                        f"{answer.stderr.strip()[-2000:]}"
                    )
