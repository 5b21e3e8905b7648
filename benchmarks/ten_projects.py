"""Ten programs that everybody knows: their sources by digest, and the commands that build, test and run them.

Commands are shell commands in the folder `build` of a project, beside its sources in `source` and its drivers in
`driver`. `$CC`, `$CXX`, `$FLAGS` and `$LINK` are the compilers and options of a variant. The digest of an output is
that of the first variant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_SECTIONS = "-ffunction-sections -fdata-sections"
FLAGS = f"-w -DNDEBUG {_SECTIONS}"
LINK = "-Wl,--gc-sections"


@dataclass(frozen=True)
class Project:
    """A program with its build.

    Attributes:
        name: Name of the program.
        archive: File name of its sources.
        sha256: Digest of that file in hexadecimal.
        get: Command that downloads the file.
        build: Builds the program, after `clean`.
        program: The linked program, a path in the build folder.
        runs: Arguments of each run of the workload; `{source}` is the folder of the sources.
        trained: Name of the dataset with code of the same project, on which bundled policies were trained; empty if the
            project has never been near training.
        configure: Prepares the build with plain clang, once.
        clean: Removes the objects and the program.
        tests: Runs the project's own tests; empty if it has none here.
        files: Files of benchmarks/sources/programs that each run finds in its folder.
        input: Makes the input of the runs, the file `input`, from the folder of the sources.
    """

    name: str
    archive: str
    sha256: str
    get: str
    build: str
    program: str
    runs: tuple[str, ...]
    trained: str = ""
    configure: str = "true"
    clean: str = "rm -rf o"
    tests: str = ""
    files: tuple[str, ...] = ()
    input: Callable[[str], str] | None = None


def _debian(package: str) -> str:
    return f"apt-get source --download-only {package}"


def _pypi(requirement: str) -> str:
    return f"{{python}} -m pip download --no-deps --no-binary :all: {requirement}"


def _make(program: str, sources: str, *, flags: str = "", libraries: str = "", exclude: str = "") -> str:
    """Return the command that builds a program from sources by program.mk."""
    names = {"PROGRAM": program, "SOURCES": sources, "FLAGS": f"$FLAGS {flags}", "LIBS": libraries, "EXCLUDE": exclude}
    variables = " ".join(f'{name}="{value}"' for name, value in names.items())
    return f'make -s -j$JOBS -f ../driver/program.mk CC="$CC" CXX="$CXX" LINK="$LINK" {variables}'


def _yaml(source: str) -> str:
    """Return a document of YAML with scalars, flows, blocks, anchors and quoted text."""
    del source
    parts = []
    for i in range(400):
        parts += [
            f"entry{i}: &e{i}",
            f'  name: "text {i} \\t \\u00e9"',
            f"  list: [1, 2.5, {i}, 'single ''{i}''', plain text]",
            f"  map: {{a: {i}, b: [x, y], c: *e{max(i - 1, 0)}}}" if i else "  map: {a: 0}",
            "  block: |\n    first line\n    second line",
            "  folded: >\n    some\n    words\n",
        ]
    return "\n".join(parts) + "\n"


def _curl(source: str) -> str:
    """Return a configuration of curl that reads a file by many addresses."""
    lines = ["silent"]
    for i in range(300):
        lines += [
            f'url = "file://{source}/include/../include/./curl/stdcheaders.h"',
            f'header = "X-Number: {i}"',
            f'user-agent = "agent/{i}"',
        ]
    return "\n".join(lines) + "\n"


_ZSTD = "../source/lib"
_ZSTD_LIBRARY = f"{_ZSTD}/common/*.c {_ZSTD}/compress/*.c {_ZSTD}/decompress/*.c {_ZSTD}/dictBuilder/*.c"
_ZSTD_FLAGS = (
    "-DZSTD_MULTITHREAD -DZSTD_LEGACY_SUPPORT=0 -DXXH_NAMESPACE=ZSTD_ -DZSTD_DISABLE_ASM=1 -DBACKTRACE_ENABLE=0 "
    f"-I{_ZSTD} -I{_ZSTD}/common -I{_ZSTD}/compress -I{_ZSTD}/dictBuilder -I../source/programs"
)
_SQLITE_FLAGS = (
    "-I. -I.. -I../amalgamation -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_ENABLE_MEMSYS5 "
    "-DSQLITE_ENABLE_FTS4 -DSQLITE_ENABLE_RTREE -DSQLITE_ENABLE_GEOPOLY -DSQLITE_ENABLE_DBSTAT_VTAB "
    "-DSQLITE_ENABLE_BYTECODE_VTAB -DSQLITE_PRINTF_PRECISION_LIMIT=1000 -DSQLITE_MAX_MEMORY=50000000"
)
_BOX2D_FLAGS = "-std=c++11 -I../source/include -I../source/src -I../source/unit-test"
_CJSON_TESTS = (
    "cjson_add compare_tests json_patch_tests minify_tests misc_tests misc_utils_tests old_utils_tests parse_array "
    "parse_examples parse_hex4 parse_number parse_object parse_string parse_value parse_with_opts print_array "
    "print_number print_object print_string print_value readme_examples"
)

PROJECTS = (
    Project(
        "SQLite",
        "sqlite3_3.40.1.orig.tar.xz",
        "aaa776260ab4dc976db34aa7891819484c8676b5b2783123ebc6301e2ca5d655",
        _debian("sqlite3"),
        configure="make -s -f ../source/main.mk TOP=../source TCC=cc BCC=cc THREADLIB= LIBTCL= NAWK=awk OPTS= sqlite3.c"
        " shell.c && mkdir -p ../amalgamation && cp sqlite3.c sqlite3.h shell.c ../amalgamation",
        build=_make("sqlite3", "../amalgamation/*.c", flags=_SQLITE_FLAGS, libraries="-lm"),
        program="sqlite3",
        tests=_make(
            "fuzzcheck",
            "../amalgamation/sqlite3.c ../source/test/fuzzcheck.c ../source/test/ossfuzz.c ../source/test/vt02.c "
            "../source/test/fuzzinvariants.c ../source/ext/recover/dbdata.c ../source/ext/recover/sqlite3recover.c",
            flags=f"{_SQLITE_FLAGS} -DSQLITE_OSS_FUZZ -I../source/test -I../source/ext/recover",
            libraries="-lm",
        )
        + " && ./fuzzcheck --limit-mem 100M ../source/test/fuzzdata1.db",
        runs=("-batch -init sqlite.sql :memory: .quit",),
        files=("sqlite.sql",),
        trained="apsw",
    ),
    Project(
        "Lua",
        "lua5.4_5.4.4.orig.tar.gz",
        "164c7849653b80ae67bec4b7473b884bf5cc8d2dca05653475ec2ed27b9ebf61",
        _debian("lua5.4"),
        build=_make(
            "lua", "../source/src/*.c", flags="-DLUA_USE_POSIX", libraries="-lm", exclude="../source/src/luac.c"
        ),
        program="lua",
        runs=("lua.lua",),
        files=("lua.lua",),
        trained="lupa",
    ),
    Project(
        "zstd",
        "libzstd_1.5.4+dfsg2.orig.tar.xz",
        "8cf4bbb65e77ec348d052c8d6230eba66d435bddf64c8b5be2fcb16880c19953",
        _debian("libzstd"),
        build=_make("zstd", f"{_ZSTD_LIBRARY} ../source/programs/*.c", flags=_ZSTD_FLAGS, libraries="-lpthread"),
        program="zstd",
        tests=_make(
            "fuzzer",
            f"{_ZSTD_LIBRARY} ../source/programs/util.c ../source/programs/timefn.c ../source/programs/datagen.c "
            "../source/tests/fuzzer.c",
            flags=_ZSTD_FLAGS,
            libraries="-lpthread",
        )
        + " && ./fuzzer -s1 -i100",
        runs=tuple(f"-q -{level} --single-thread -c input" for level in (1, 9, 19)),
        input=lambda source: _read(f"{source}/lib/decompress/huf_decompress.c"),
        trained="zstd",
    ),
    Project(
        "PCRE2",
        "pcre2_10.42.orig.tar.gz",
        "c33b418e3b936ee3153de2c61cc638e7e4fe3156022a5c77d0711bcbb9d64f1f",
        _debian("pcre2"),
        configure='../source/configure --disable-shared --disable-dependency-tracking CC="$CC" CFLAGS="$FLAGS" '
        'LDFLAGS="$LINK"',
        clean="make -s clean",
        build="make -s -j$JOBS pcre2grep",
        program="pcre2grep",
        tests="make -s -j$JOBS check",
        runs=(
            r"-c '(\w+)\s+\1' input",
            r"-o '(?i)\b[a-z]+(?=ing\b)' input",
            r"-M -c 'e[^.]*?\n\s+[A-Z]' input",
        ),
        input=lambda source: _read(f"{source}/doc/pcre2.txt")[:200_000],
    ),
    Project(
        "QuickJS",
        "quickjs-1.19.4.tar.gz",
        "1205953abc24ff757f4a795304d5d61e4bf1e555c9ef6ec96a132d4b95535484",
        _pypi("quickjs==1.19.4"),
        build=_make(
            "qjs",
            "../source/upstream-quickjs/*.c ../driver/quickjs.c",
            flags="-D_GNU_SOURCE -DCONFIG_BIGNUM -DCONFIG_VERSION='\\\"2020-11-08\\\"' -I../source/upstream-quickjs",
            libraries="-lm -lpthread",
        ),
        program="qjs",
        runs=("quickjs.js",),
        files=("quickjs.js",),
    ),
    Project(
        "yaml-cpp",
        "yaml-cpp_0.7.0+dfsg.orig.tar.xz",
        "dc63708605404e0b963e0ca3a9619d1c8270eda2839603e6fa0384e5e51e5312",
        _debian("yaml-cpp"),
        configure="ln -sfn /usr/src/googletest ../source/test/gtest-1.10.0; "
        'cmake ../source -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_C_COMPILER="$CC" -DCMAKE_BUILD_TYPE=None '
        '-DCMAKE_CXX_FLAGS="$FLAGS" -DCMAKE_EXE_LINKER_FLAGS="$LINK" -DYAML_CPP_BUILD_TESTS=ON',
        clean="find . -name '*.o' -not -path './test/*' -delete; rm -f util/parse",
        build="make -s -j$JOBS yaml-cpp-parse",
        program="util/parse",
        tests="make -s -j$JOBS yaml-cpp-tests && test/yaml-cpp-tests",
        runs=("input",),
        input=_yaml,
    ),
    Project(
        "libsass",
        "libsass-0.23.0.tar.gz",
        "6f209955ede26684e76912caf329f4ccb57e4a043fd77fe0e7348dd9574f1880",
        _pypi("libsass==0.23.0"),
        build=_make(
            "sass",
            "../source/libsass/src/*.c ../source/libsass/src/*.cpp ../source/libsass/src/memory/*.cpp ../driver/sass.c",
            flags="-I../source/libsass/include -DLIBSASS_VERSION='\\\"3.6.6\\\"'",
            libraries="-ldl",
        ),
        program="sass",
        tests="$CXX $FLAGS -I../source/libsass/include ../source/libsass/test/test_util_string.cpp "
        "o/source/libsass/src/util_string.cpp.o -o string-test && ./string-test",
        runs=("sass.scss",),
        files=("sass.scss",),
    ),
    Project(
        "Box2D",
        "box2d_2.4.1.orig.tar.gz",
        "d6b4650ff897ee1ead27cf77a5933ea197cbeef6705638dd181adc2e816b23c2",
        _debian("box2d"),
        build=_make("box2d", "../source/src/*/*.cpp ../driver/box2d.cpp", flags=_BOX2D_FLAGS),
        program="box2d",
        tests=_make(
            "unit-test",
            "../source/src/*/*.cpp ../source/unit-test/*.cpp",
            flags=f"{_BOX2D_FLAGS} -DDOCTEST_CONFIG_NO_POSIX_SIGNALS",
        )
        + " && ./unit-test",
        runs=("",),
        trained="box2d-py",
    ),
    Project(
        "cJSON",
        "cjson_1.7.15.orig.tar.gz",
        "5308fd4bd90cef7aa060558514de6a1a4a0819974a26e6ed13973c5f624c24b2",
        _debian("cjson"),
        build=_make(
            "json", "../source/cJSON.c ../source/cJSON_Utils.c ../driver/json.c", flags="-I../source", libraries="-lm"
        ),
        program="json",
        # The tests include the library's source.
        tests=f"for test in {_CJSON_TESTS}; do "
        "$CC $FLAGS -UNDEBUG -I../source -I../source/tests/unity/src -c ../source/tests/$test.c -o o/$test.o && "
        "$CC $FLAGS -c ../source/tests/unity/src/unity.c -o o/unity.o && "
        "$CC o/$test.o $(case $test in *patch*|*utils*) echo o/source/cJSON_Utils.c.o;; esac) o/unity.o -lm "
        "-Wl,--allow-multiple-definition -o o/$test && "
        "(cd ../source/tests && ../../build/o/$test) || exit 1; done",
        runs=("",),
    ),
    Project(
        "curl",
        "curl_7.88.1.orig.tar.gz",
        "cdb38b72e36bc5d33d5b8810f8018ece1baa29a8f215b4495e495ded82bbf3c7",
        _debian("curl"),
        configure="../source/configure --disable-shared --disable-dependency-tracking --without-ssl --without-zlib "
        "--without-brotli --without-zstd --without-libpsl --without-libidn2 --without-nghttp2 --disable-ldap "
        '--disable-manual CC="$CC" CFLAGS="$FLAGS" LDFLAGS="$LINK"',
        clean="make -s -C lib clean && make -s -C src clean",
        build="make -s -j$JOBS -C lib V=0 && make -s -j$JOBS -C src V=0",
        program="src/curl",
        # A warning about an unset variable ends the tests.
        tests="make -s -j$JOBS -C tests && cd tests && USER=${USER:-user} srcdir=../../source/tests "
        "perl -I../../source/tests ../../source/tests/runtests.pl -a FILE",
        runs=("--config input",),
        input=_curl,
    ),
)


def _read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="replace")
