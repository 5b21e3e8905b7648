"""Programs with known output around modules of corpora; they are linked and run by `correctness.py`."""

from __future__ import annotations

import gzip
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.corpus.modules.builtin import PROGRAMS as BUILTIN_SOURCES
from mlgo_gym.llvm.toolchain import bundled_command

TARGET = "x86_64-linux-musl"
_SECONDS = 60

SOURCES = Path(__file__).with_name("sources")

SELFTEST = """
int printf(const char *, ...);
int {name}_selftest(void);
int main(void) {{ printf("%d\\n", {name}_selftest()); return 0; }}
"""

XXHASH_OUTPUT = "02cc5d05 ef46db3751d8e999 2d06800538d394c2\n32d153ff 44bc2cf5ad770999 78af5f94892f3950\n"
"""The vectors of "" and "abc", from xxHash's specification and its sanity tests."""

MURMUR_OUTPUT = "514e28b7\nba6bd213\nc0363e43\n"
"""Published vectors of MurmurHash3_x86_32: "" with the seed 1, "test" and "Hello, world!" with 0."""

LZ4_OUTPUT = "1 1\n" * 5 + "1 04224d18\n"
"""Packed text is smaller and unpacks to the same; a frame starts with LZ4's magic number."""

ZOPFLI_TEXT = "".join(f"line {n} of {n * n % 97}, {'the same words ' * (n % 5)}\n" for n in range(300)).encode()


class Linker:
    """Compiles each driver once, and links it with objects.

    Args:
        folder: folder of all files.
        kind: `bundled` for the libc of the bundled compiler, `cc` for that of the machine.
    """

    def __init__(self, folder: Path, kind: str = "bundled") -> None:
        self._folder = folder
        self._compiler = ["cc"] if kind == "cc" else [bundled_command()[0], "cc", "-target", TARGET]
        self._kind = kind
        self._drivers: dict[str, Path] = {}
        self._libraries: list[str] = []
        # These links do not belong in the user's cache.
        self._environment = {**os.environ, "ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}

    def link(self, driver: str, objects: Sequence[bytes]) -> Path:
        """Link a driver, given as source text, with objects; return the program."""
        if driver not in self._drivers:
            self._drivers[driver] = self._compile(driver)
        files = []
        for number, data in enumerate(objects):
            files.append(self._folder / f"{number}.o")
            files[-1].write_bytes(data)
        program = self._folder / "program"
        if self._kind == "cc":
            self._run([*self._compiler, self._drivers[driver], *files, "-lm", "-o", program])
            return program
        if not self._libraries:
            self._libraries = self._find_libraries(self._drivers[driver], files)
        start, *libraries = self._libraries
        words = [bundled_command()[0], "ld.lld", "-static", "-o", program, start]
        self._run([*words, self._drivers[driver], *files, *libraries])
        return program

    def _compile(self, driver: str) -> Path:
        source = self._folder / f"driver-{len(self._drivers)}.c"
        source.write_text(driver)
        compiled = source.with_suffix(".o")
        self._run([*self._compiler, "-w", "-O1", "-c", source, "-o", compiled])
        return compiled

    def _find_libraries(self, driver: Path, files: Sequence[Path]) -> list[str]:
        """Return the start file and the libraries that the bundled compiler builds and links with."""
        first = self._folder / "first"
        output = self._run([*self._compiler, "-static", driver, *files, "-o", first], ZIG_VERBOSE_LINK="1")
        # The build of the libraries also links.
        words = next(line for line in output.splitlines() if f" -o {first} " in line).split()
        found = [word for word in words if word.endswith(("crt1.o", ".a"))]
        assert found[0].endswith("crt1.o"), words
        return found

    def _run(self, words: Sequence[object], **environment: str) -> str:
        done = subprocess.run(
            [str(word) for word in words],
            env={**self._environment, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout + done.stderr


@dataclass(frozen=True, slots=True)
class Program:
    """A program with known output.

    Attributes:
        name: its name.
        corpus: the corpus of its modules.
        modules: names of its modules.
        driver: source text of its `main()`.
        is_correct: whether an output is correct.
    """

    name: str
    corpus: str
    modules: tuple[str, ...]
    driver: str
    is_correct: Callable[[bytes], bool]

    def problem(self, linker: Linker, objects: Sequence[bytes]) -> str:
        """Link and run the program; return what is wrong with it, or an empty text."""
        program = linker.link(self.driver, objects)
        try:
            done = subprocess.run([program], capture_output=True, check=False, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            return f"no end after {_SECONDS} seconds"
        if done.returncode != 0:
            return f"exit status {done.returncode}"
        return "" if self.is_correct(done.stdout) else f"wrong output, which starts with {done.stdout[:200]!r}"


def _is(output: str) -> Callable[[bytes], bool]:
    return lambda found: found.decode() == output


def _starts_with(output: str) -> Callable[[bytes], bool]:
    """Return whether an output starts with the published one; the rest must be equal in all runs."""
    first: list[bytes] = []

    def is_correct(found: bytes) -> bool:
        if not found.startswith(output.encode()):
            return False
        # The first output is that of plain clang's objects, with which all runs start.
        first.append(found)
        return found == first[0]

    return is_correct


def _unpacks(found: bytes) -> bool:
    try:
        return gzip.decompress(found) == ZOPFLI_TEXT
    except (OSError, EOFError):
        return False


_ZOPFLI_MODULES = (
    *("blocksplitter", "cache", "deflate", "gzip_container", "hash", "katajainen", "lz77", "squeeze", "tree", "util"),
    *("zlib_container", "zopfli_lib"),
)

_LZ4_MODULES = ("lz4", "lz4hc", "lz4frame", "xxhash")


def _library(name: str, modules: tuple[str, ...], is_correct: Callable[[bytes], bool], prefix: str = "") -> Program:
    return Program(name, name, modules, prefix + (SOURCES / f"{name}.c").read_text(), is_correct)


_LIBRARIES = (
    _library("xxhash", ("deps/xxhash/xxhash.o",), _starts_with(XXHASH_OUTPUT)),
    _library("mmh3", ("src/mmh3/murmurhash3.o",), _starts_with(MURMUR_OUTPUT)),
    _library("lz4", tuple(f"lz4libs/{name}.o" for name in _LZ4_MODULES), _is(LZ4_OUTPUT)),
    _library(
        "zopfli",
        tuple(f"zopfli/src/zopfli/{name}.o" for name in _ZOPFLI_MODULES),
        _unpacks,
        f"#define TEXT {','.join(map(str, ZOPFLI_TEXT))}\n",
    ),
)

_BUILTIN = tuple(
    Program(
        f"{source.parent.name}/{source.stem}",
        "builtin",
        (f"{source.parent.name}/{source.stem}",),
        SELFTEST.format(name=source.stem),
        _is("0\n"),
    )
    for source in sorted(BUILTIN_SOURCES.glob("*/*.c*"))
)

PROGRAMS = {program.name: program for program in (*_LIBRARIES, *_BUILTIN)}
"""All programs by name."""
