"""Whether builds that nobody here wrote are recorded whole: every object again, byte for byte, and the rest counted.

    python benchmarks/recorded_builds.py --json docs/results/recorded_builds.json

Six projects that are in no dataset of the catalogue, one for each way to build: make, Autotools with libtool, CMake,
Meson, setuptools, and ThinLTO. Each is built at -O2 by the bundled clang while it is recorded at -O2, so that the
objects of the build are what the modules have to give: the executable sections of both are compared. Objects of ThinLTO
are bitcode and have none; that project is built once more without. Its link is done again from the modules.

Sources come from PyPI, and from Debian by `apt-get source`, which needs its `deb-src` lines; all are pinned by digest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import tempfile
import venv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.fetch import fetch_source
from mlgo_gym.corpus.links import read_links
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.record import build_environment, record_build
from mlgo_gym.corpus.relink import link_again
from mlgo_gym.corpus.unpack import unpack
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain

TOOLS = ("meson==1.9.1", "ninja==1.13.0", "setuptools==80.9.0")


@dataclass(frozen=True)
class Build:
    """A project and how it is built.

    Attributes:
        name: its package in Debian or on PyPI.
        version: that of the package.
        origin: `debian` or `pypi`.
        archive: the name of its sources.
        sha256: their digest.
        system: what builds it.
        script: how, at -O2.
        plainly: how it is built without link time optimisation, where its objects are bitcode else.
    """

    name: str
    version: str
    origin: str
    archive: str
    sha256: str
    system: str
    script: str
    plainly: str | None = None


BUILDS = (
    Build(
        "bzip2", "1.0.8-5", "debian", "bzip2_1.0.8.orig.tar.gz",
        "ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269",
        "make", "make -j2 bzip2 bzip2recover",
    ),
    Build(
        "libev", "1:4.33-1", "debian", "libev_4.33.orig.tar.gz",
        "507eb7b8d1015fbec5b935f34ebed15bf346bed04a11ab82b8eee848c4205aea",
        "Autotools, libtool", "find . -type f -exec touch -d @0 {} +; ./configure CFLAGS=-O2; make -j2",
    ),
    Build(
        "json-c", "0.16-2", "debian", "json-c_0.16.orig.tar.gz",
        "3ecaeedffd99a60b1262819f9e60d7d983844073abc74e495cb822b251904185",
        "CMake",
        "cmake -B build -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBUILD_SHARED_LIBS=OFF -DDISABLE_WERROR=ON; "
        "cmake --build build",
    ),
    Build(
        "serd", "0.30.16-1", "debian", "serd_0.30.16.orig.tar.xz",
        "f50f486da519cdd8d03b20c9e42414e459133f5a244411d8e63caef8d9ac9146",
        "Meson", "meson setup build -Doptimization=2 -Ddebug=false -Ddocs=disabled && ninja -C build",
    ),
    Build(
        "bitarray", "3.4.2", "pypi", "bitarray-3.4.2.tar.gz",
        "78ed2b911aabede3a31e3329b1de8abdc8104bd5e0545184ddbd9c7f668f4059",
        "setuptools", "CFLAGS=-O2 python setup.py build",
    ),
    Build(
        "libdeflate", "1.14-1", "debian", "libdeflate_1.14.orig.tar.gz",
        "89e7df898c37c3427b0f39aadcf733731321a278771d20fc553f92da8d4808ac",
        "make, ThinLTO", "make -j2 CFLAGS='-O2 -flto=thin' libdeflate.so libdeflate.a gzip",
        "make -j2 CFLAGS=-O2 libdeflate.so libdeflate.a gzip",
    ),
)  # fmt: skip


def fetch(build: Build, downloads: Path) -> Path:
    """Return the archive of a project's sources, checked."""
    if build.origin == "pypi":
        return fetch_source(build.name, build.version, build.sha256).path
    path = downloads / build.archive
    if not path.exists():
        command = ["apt-get", "source", "--download-only", "-qq", f"{build.name}={build.version}"]
        subprocess.run(command, cwd=downloads, check=True)
    if hashlib.sha256(path.read_bytes()).hexdigest() != build.sha256:
        raise SystemExit(f"{path} is not what is pinned")
    return path


def code(path: Path) -> list[tuple[str, bytes]] | None:
    """Return the executable sections of an object file by name; None where it is bitcode."""
    with path.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
        file.seek(0)
        return sorted((part.name, part.data()) for part in ELFFile(file).iter_sections() if part["sh_flags"] & 4)


def environment(tools: Path) -> dict[str, str]:
    """Return the variables of a build that finds the tools of a virtual environment after the shims."""
    return {"PATH": f"{tools / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def compile_again(work: Path, objects: Path, toolchain: Toolchain) -> tuple[dict[str, Path], dict[str, str]]:
    """Compile each recorded module; return its object, and whether that has the code of the build's."""
    again, found = {}, {}
    for number, module in enumerate(open_corpus(work / "corpus", toolchain=toolchain)):
        again[module.name] = work / f"{number}.o"
        subprocess.run([*plan(module, toolchain).command, "-o", str(again[module.name])], check=True)
        theirs = objects / module.name
        if theirs.exists():
            found[module.name] = "equal" if code(theirs) == code(again[module.name]) else "differs"
        else:
            found[module.name] = "no object of the build"
    return again, found


def try_build(build: Build, downloads: Path, work: Path, tools: Path, toolchain: Toolchain) -> dict[str, object]:
    """Record a project, compile each module again, and return what came of it."""
    archive = fetch(build, downloads)
    root = unpack(archive, work / "source")
    shims = build_environment(toolchain)
    path = {"PATH": f"{shims['PATH'].partition(os.pathsep)[0]}{os.pathsep}{environment(tools)['PATH']}"}
    recorded = record_build(
        ["sh", "-ec", build.script], work / "corpus", optimize="O2", toolchain=toolchain, folder=root, environment=path,
        log=work / "log",
    )  # fmt: skip
    recording = recorded.recording
    if recorded.status != 0:
        raise SystemExit(f"{build.name}: {(work / 'log').read_text(errors='replace')[-3000:]}")
    objects = root
    if build.plainly is not None:
        objects = unpack(archive, work / "plainly")
        subprocess.run(
            ["sh", "-ec", build.plainly],
            cwd=objects,
            env={**os.environ, **shims, **path},
            check=True,
            capture_output=True,
        )
    again, found = compile_again(work, objects, toolchain)
    made: dict[str, Path] = {}
    failed = []
    links = read_links(work / "corpus")
    for number, link in enumerate(links):
        made[link.output] = work / f"linked-{number}"
        try:
            link_again(link, work / "corpus", again, made[link.output], toolchain, libraries=made)
        except CorpusError as error:
            failed.append(f"{link.output}: {error}")
    return {
        "version": build.version,
        "origin": build.origin,
        "sha256": build.sha256,
        "system": build.system,
        "modules": len(recording.modules),
        "lines": recording.lines,
        "verdicts": dict(Counter(found.values())),
        "not_equal": [f"{name}: {same}" for name, same in found.items() if same != "equal"],
        "duplicates": recording.duplicates,
        "replaced": recording.replaced,
        "left_out": dict(recording.left_out),
        "failures": [f"{failure.source}: {failure.message[-300:]}" for failure in recording.failures],
        "links": len(links),
        "linked_again": len(links) - len(failed),
        "links_failed": failed,
        "lto": sorted({link.lto or "none" for link in links}),
    }


def main() -> None:
    """Print a table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="*", help="names of some of the projects; all if left out")
    parser.add_argument("--downloads", type=Path, help="a folder that keeps sources from Debian")
    parser.add_argument("--json", type=Path, help="also write the results there")
    arguments = parser.parse_args()
    toolchain = find_toolchain("bundled")
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="mlgo-gym-builds-") as scratch:
        tools = Path(scratch, "tools")
        venv.create(tools, with_pip=True)
        subprocess.run([tools / "bin" / "python", "-m", "pip", "install", "-q", *TOOLS], check=True)
        downloads = (arguments.downloads or Path(scratch, "downloads")).absolute()
        downloads.mkdir(parents=True, exist_ok=True)
        for build in BUILDS:
            if arguments.builds and build.name not in arguments.builds:
                continue
            work = Path(scratch, build.name)
            work.mkdir()
            result = try_build(build, downloads, work, tools, toolchain)
            results[build.name] = result
            print(f"{build.name} ({build.system}): {json.dumps(result, indent=1)}", flush=True)
            if arguments.json is not None:
                report = {"compiler": f"bundled clang {toolchain.version_text}", "level": "O2", "builds": results}
                arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
