"""Real builds with link steps: sources, commands, and their recording as corpora.

    apt-get source --download-only yaml-cpp leveldb muparser libjsoncpp box2d pcre2 uchardet graphite2 libebml
    python -m benchmarks.linked_builds --sources sources --work builds --level Oz

Debian's archives are read from `--sources`; the package index serves the others by version. Each build becomes the
folder `WORK/LEVEL/NAME`, a corpus with `links.json`. Existing corpora stay. Nobody trained on these projects, except
those of the catalogue, which `IN_CATALOGUE` names.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import command_line
from mlgo_gym.corpus.datasets.dataset import fetch_dataset
from mlgo_gym.corpus.datasets.sources import fetch_source
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain

SECTIONS = "-ffunction-sections -fdata-sections"
GC = "-Wl,--gc-sections"

_CMAKE = (
    "cmake -S . -B build -DCMAKE_BUILD_TYPE=None -DCMAKE_POSITION_INDEPENDENT_CODE=ON "
    f"-DCMAKE_CXX_FLAGS='-DNDEBUG {SECTIONS}' -DCMAKE_C_FLAGS='-DNDEBUG {SECTIONS}' "
    f"-DCMAKE_EXE_LINKER_FLAGS={GC} -DCMAKE_SHARED_LINKER_FLAGS={GC} {{options}} && cmake --build build -j1"
)
_WHEEL = f"CFLAGS='{SECTIONS}' LDFLAGS={GC} {sys.executable} setup.py build_ext"


@dataclass(frozen=True)
class LinkedBuild:
    """A build with link steps.

    Attributes:
        source: file name of the archive, or `NAME==VERSION` on the package index; or `pypi:NAME==VERSION`, a corpus.
        command: shell command of the build, in the folder of the sources.
    """

    source: str
    command: str = ""


def _cmake(options: str) -> str:
    return _CMAKE.format(options=options)


BUILDS = {
    "box2d": LinkedBuild("box2d_2.4.1.orig.tar.gz", _cmake("-DBOX2D_BUILD_TESTBED=OFF -DBOX2D_BUILD_UNIT_TESTS=ON")),
    "cmarkgfm": LinkedBuild("pypi:cmarkgfm==2025.10.22"),
    "graphite2": LinkedBuild("graphite2_1.3.14.orig.tar.gz", _cmake("-DGRAPHITE2_TESTS=OFF")),
    "jsoncpp": LinkedBuild(
        "libjsoncpp_1.9.5.orig.tar.gz",
        _cmake("-DJSONCPP_WITH_TESTS=ON -DJSONCPP_WITH_POST_BUILD_UNITTEST=OFF -DBUILD_STATIC_LIBS=OFF"),
    ),
    "jsonnet": LinkedBuild("jsonnet==0.22.0", _WHEEL),
    "leveldb": LinkedBuild(
        "leveldb_1.23.orig.tar.gz",
        _cmake("-DBUILD_SHARED_LIBS=ON -DLEVELDB_BUILD_TESTS=OFF -DLEVELDB_BUILD_BENCHMARKS=OFF"),
    ),
    "libebml": LinkedBuild("libebml_1.4.4.orig.tar.xz", _cmake("-DBUILD_SHARED_LIBS=ON")),
    "libsass": LinkedBuild(
        "libsass==0.23.0",
        f"CXXFLAGS='{SECTIONS}' CFLAGS='{SECTIONS}' LDFLAGS={GC} make -C libsass BUILD=shared lib/libsass.so",
    ),
    "muparser": LinkedBuild("muparser_2.3.3.orig.tar.gz", _cmake("-DENABLE_OPENMP=OFF -DENABLE_SAMPLES=ON")),
    "pcre2": LinkedBuild(
        "pcre2_10.42.orig.tar.gz", _cmake("-DPCRE2_BUILD_TESTS=OFF -DPCRE2_BUILD_PCRE2GREP=ON -DPCRE2_SUPPORT_JIT=OFF")
    ),
    "pymunk": LinkedBuild("pypi:pymunk==7.3.1"),
    "python-crfsuite": LinkedBuild("pypi:python-crfsuite==0.9.12"),
    "uchardet": LinkedBuild("uchardet_0.0.7.orig.tar.xz", _cmake("-DBUILD_STATIC=OFF")),
    "yaml-cpp": LinkedBuild(
        "yaml-cpp_0.7.0+dfsg.orig.tar.xz", _cmake("-DYAML_CPP_BUILD_TESTS=OFF -DYAML_CPP_BUILD_TOOLS=ON")
    ),
}

IN_CATALOGUE = frozenset({"box2d", "jsonnet"})
"""Builds of projects with modules in the catalogue: its training split contains other modules of them."""


def record(name: str, sources: Path, output: Path, level: str, toolchain: Toolchain) -> None:
    """Unpack the sources of a build, and record it as a corpus at a level."""
    build = BUILDS[name]
    if build.source.startswith("pypi:"):
        output.parent.mkdir(parents=True, exist_ok=True)
        output.symlink_to(fetch_dataset(build.source, optimize=level, toolchain=toolchain))
        return
    package, is_indexed, version = build.source.partition("==")
    archive = fetch_source(package, version).path if is_indexed else sources / build.source
    with tempfile.TemporaryDirectory() as work:
        with tarfile.open(archive) as opened:
            opened.extractall(work, filter="tar")
        (folder,) = (path for path in Path(work).iterdir() if path.is_dir())
        partial = output.with_name(f".{output.name}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.parent.mkdir(parents=True, exist_ok=True)
        log = partial.with_suffix(".log")
        recorded = record_build(
            ["sh", "-c", build.command], partial, optimize=level, toolchain=toolchain, folder=folder, log=log
        )
    print(f"{name} -{level}: {len(recorded.modules)} modules, {recorded.links} links, exit status {recorded.status}")
    if recorded.status == 0:
        partial.rename(output)


def main() -> None:
    """Record the builds that have no corpus yet."""
    parser = command_line(__doc__)
    parser.add_argument("--sources", type=Path, required=True, help="folder of Debian's archives")
    parser.add_argument("--work", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--level", default="Oz", help="level of the corpora")
    parser.add_argument("--only", nargs="+", default=list(BUILDS), choices=list(BUILDS), help="builds to record")
    parser.add_argument("--clang", help="another clang than the bundled one")
    options = parser.parse_args()
    toolchain = find_toolchain(options.clang)
    for name in options.only:
        output = options.work / options.level / name
        if not output.exists():
            record(name, options.sources, output, options.level, toolchain)


if __name__ == "__main__":
    main()
