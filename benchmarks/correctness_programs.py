"""Programs with known output around the modules of corpora, and how they are linked and run."""

from __future__ import annotations

import gzip
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.corpus.builtin import PROGRAMS as SOURCES
from mlgo_gym.llvm.toolchain import bundled_command

TARGET = "x86_64-linux-musl"
_SECONDS = 60

SELFTEST = """
int printf(const char *, ...);
int {name}_selftest(void);
int main(void) {{ printf("%d\\n", {name}_selftest()); return 0; }}
"""

XXHASH = r"""
#include <stdio.h>
#include <stdint.h>
unsigned XXH32(const void *, size_t, unsigned);
uint64_t XXH64(const void *, size_t, uint64_t), XXH3_64bits(const void *, size_t);
static unsigned char big[100000];
int main(void) {
    for (size_t i = 0; i < sizeof big; i++) big[i] = (unsigned char)(i * 2654435761u >> 24);
    const char *texts[] = {"", "abc"};
    for (size_t i = 0; i < 2; i++)
        printf("%08x %016llx %016llx\n", XXH32(texts[i], 3 * i, 0), (unsigned long long)XXH64(texts[i], 3 * i, 0),
               (unsigned long long)XXH3_64bits(texts[i], 3 * i));
    for (size_t n = 1; n < sizeof big; n = n * 3 + 1)
        printf("%08x %016llx %016llx\n", XXH32(big, n, 7), (unsigned long long)XXH64(big, n, 7),
               (unsigned long long)XXH3_64bits(big, n));
    return 0;
}
"""
XXHASH_KNOWN = "02cc5d05 ef46db3751d8e999 2d06800538d394c2\n32d153ff 44bc2cf5ad770999 78af5f94892f3950\n"
"""The vectors of "" and "abc" (xxHash's own specification and its sanity tests)."""

MURMUR = r"""
#include <stdio.h>
#include <stdint.h>
void murmurhash3_x86_32(const void *, long, uint32_t, void *);
void murmurhash3_x64_128(const void *, long, uint32_t, void *);
void murmurhash3_x86_128(const void *, long, uint32_t, void *);
static unsigned char big[4096];
int main(void) {
    uint32_t small;
    uint64_t wide[2];
    murmurhash3_x86_32("", 0, 1, &small), printf("%08x\n", small);
    murmurhash3_x86_32("test", 4, 0, &small), printf("%08x\n", small);
    murmurhash3_x86_32("Hello, world!", 13, 0, &small), printf("%08x\n", small);
    for (int i = 0; i < (int)sizeof big; i++) big[i] = (unsigned char)(i * 2654435761u >> 24);
    for (int n = 0; n < 100; n++) {
        murmurhash3_x64_128(big, n * 41, n, wide), printf("%016llx%016llx ", (long long)wide[0], (long long)wide[1]);
        murmurhash3_x86_128(big, n * 41, n, wide), printf("%016llx%016llx\n", (long long)wide[0], (long long)wide[1]);
    }
    return 0;
}
"""
MURMUR_KNOWN = "514e28b7\nba6bd213\nc0363e43\n"
"""Published vectors of MurmurHash3_x86_32: "" by the seed 1, "test" and "Hello, world!" by 0."""

LZ4 = r"""
#include <stdio.h>
#include <string.h>
int LZ4_compress_default(const char *, char *, int, int), LZ4_decompress_safe(const char *, char *, int, int),
    LZ4_compress_HC(const char *, char *, int, int, int);
size_t LZ4F_compressFrame(void *, size_t, const void *, size_t, const void *);
unsigned LZ4F_isError(size_t);
static char text[60000], packed[200000], back[60000];
static void tell(int size) {
    memset(back, 0, sizeof back);
    int again = LZ4_decompress_safe(packed, back, size, sizeof back);
    int same = again == (int)sizeof text && !memcmp(text, back, sizeof text);
    printf("%d %d\n", size > 0 && size < (int)sizeof text, same);
}
int main(void) {
    unsigned state = 1;
    for (size_t i = 0; i < sizeof text; i++) {
        state = state * 1103515245 + 12345;
        text[i] = i > 300 && state >> 28 > 2 ? text[i - 1 - (state >> 20) % 300] : (char)('a' + (state >> 16) % 26);
    }
    tell(LZ4_compress_default(text, packed, sizeof text, sizeof packed));
    for (int level = 3; level <= 12; level += 3)
        tell(LZ4_compress_HC(text, packed, sizeof text, sizeof packed, level));
    size_t frame = LZ4F_compressFrame(packed, sizeof packed, text, sizeof text, NULL);
    printf("%d ", !LZ4F_isError(frame));
    for (int i = 0; i < 4; i++) printf("%02x", packed[i] & 255);
    printf("\n");
    return 0;
}
"""
LZ4_KNOWN = "1 1\n" * 5 + "1 04224d18\n"
"""What is packed is smaller, and unpacked the same; a frame begins with LZ4's magic number."""

ZOPFLI_TEXT = "".join(f"line {n} of {n * n % 97}, {'the same words ' * (n % 5)}\n" for n in range(300)).encode()

ZOPFLI = r"""
#include <stdio.h>
#include <stdlib.h>
typedef struct { int verbose, verbose_more, iterations, splitting, last, most; } options;
void ZopfliInitOptions(options *);
void ZopfliCompress(const options *, int, const unsigned char *, size_t, unsigned char **, size_t *);
static unsigned char text[] = {TEXT};
int main(void) {
    options o;
    unsigned char *packed = NULL;
    size_t size = 0;
    ZopfliInitOptions(&o);
    o.iterations = 3;
    ZopfliCompress(&o, 0, text, sizeof text, &packed, &size);
    fwrite(packed, 1, size, stdout);
    free(packed);
    return 0;
}
""".replace("{TEXT}", "{" + ",".join(map(str, ZOPFLI_TEXT)) + "}")


class Linker:
    """Compiles drivers, once each, and links them with objects.

    Args:
        folder: for what is made.
        kind: `bundled`, with the libc of the bundled compiler, or `cc`, with that of the machine.
    """

    def __init__(self, folder: Path, kind: str = "bundled") -> None:
        self._folder = folder
        self._compiler = ["cc"] if kind == "cc" else [bundled_command()[0], "cc", "-target", TARGET]
        self._kind = kind
        self._drivers: dict[str, Path] = {}
        self._libraries: list[str] = []
        # Links that nobody will make again need no place in the user's cache.
        self._environment = {**os.environ, "ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}

    def link(self, driver: str, objects: Sequence[bytes]) -> Path:
        """Return a program of a driver's source and of objects."""
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
            self._libraries = self._ask_for_libraries(self._drivers[driver], files)
        begin, *rest = self._libraries
        self._run(
            [bundled_command()[0], "ld.lld", "-static", "-o", program, begin, self._drivers[driver], *files, *rest]
        )
        return program

    def _compile(self, driver: str) -> Path:
        source = self._folder / f"driver-{len(self._drivers)}.c"
        source.write_text(driver)
        made = source.with_suffix(".o")
        self._run([*self._compiler, "-w", "-O1", "-c", source, "-o", made])
        return made

    def _ask_for_libraries(self, driver: Path, files: Sequence[Path]) -> list[str]:
        """Return the start file and the libraries that the bundled compiler links with, after it has made them."""
        first = self._folder / "first"
        said = self._run([*self._compiler, "-static", driver, *files, "-o", first], ZIG_VERBOSE_LINK="1")
        # The libraries are linked, too, where they are made.
        words = next(line for line in said.splitlines() if f" -o {first} " in line).split()
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
        name: how it is called.
        corpus: the corpus that its modules are of.
        modules: these.
        driver: the source of its `main()`.
        right: tells whether its output is right.
    """

    name: str
    corpus: str
    modules: tuple[str, ...]
    driver: str
    right: Callable[[bytes], bool]

    def wrong(self, linker: Linker, objects: Sequence[bytes]) -> str:
        """Link it of some objects and run it; return what is wrong, or nothing."""
        program = linker.link(self.driver, objects)
        try:
            done = subprocess.run([program], capture_output=True, check=False, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            return f"it ran for more than {_SECONDS} seconds"
        if done.returncode != 0:
            return f"it ended with {done.returncode}"
        return "" if self.right(done.stdout) else f"its output begins with {done.stdout[:200]!r}"


def _is(output: str) -> Callable[[bytes], bool]:
    return lambda found: found.decode() == output


def _begins(output: str) -> Callable[[bytes], bool]:
    """Return whether an output begins as is published; the rest has to be the same each time."""
    first: list[bytes] = []

    def right(found: bytes) -> bool:
        if not found.startswith(output.encode()):
            return False
        # The first output is that of plain clang's objects, which every set of runs begins with.
        first.append(found)
        return found == first[0]

    return right


def _unpacks(found: bytes) -> bool:
    try:
        return gzip.decompress(found) == ZOPFLI_TEXT
    except (OSError, EOFError):
        return False


_ZOPFLI_MODULES = (
    *("blocksplitter", "cache", "deflate", "gzip_container", "hash", "katajainen", "lz77", "squeeze", "tree", "util"),
    *("zlib_container", "zopfli_lib"),
)

_LIBRARIES = (
    Program("xxhash", "xxhash", ("deps/xxhash/xxhash.o",), XXHASH, _begins(XXHASH_KNOWN)),
    Program("mmh3", "mmh3", ("src/mmh3/murmurhash3.o",), MURMUR, _begins(MURMUR_KNOWN)),
    Program(
        "lz4", "lz4", tuple(f"lz4libs/{name}.o" for name in ("lz4", "lz4hc", "lz4frame", "xxhash")), LZ4, _is(LZ4_KNOWN)
    ),
    Program("zopfli", "zopfli", tuple(f"zopfli/src/zopfli/{name}.o" for name in _ZOPFLI_MODULES), ZOPFLI, _unpacks),
)

_BUILTIN = tuple(
    Program(
        f"{source.parent.name}/{source.stem}",
        "builtin",
        (f"{source.parent.name}/{source.stem}",),
        SELFTEST.format(name=source.stem),
        _is("0\n"),
    )
    for source in sorted(SOURCES.glob("*/*.c*"))
)

PROGRAMS = {program.name: program for program in (*_LIBRARIES, *_BUILTIN)}
"""Every program by its name."""
