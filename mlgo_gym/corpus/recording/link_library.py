"""The libraries that the bundled compiler links with.

The wheel contains the sources of libc++, libc++abi, libunwind and compiler-rt. The first link of each kind compiles
about 90 of their files into the cache of `zig`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.corpus.commands.driver import linker_command
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from mlgo_gym.storage.temporary_folders import temporary_folder

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
