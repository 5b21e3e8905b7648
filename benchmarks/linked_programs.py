"""C++ libraries and programs of held-out projects, linked whole: plain builds, policies, and link facts.

    python -m benchmarks.linked_programs --work runs/linked [--only ninja yaml-cpp] [--variants Oz facts] [--jobs 2]

Sources come from Debian (`deb-src` lines in the sources of apt) and from the package index; their digests are in
benchmarks/sources/libraries.toml. No bundled policy was trained on these projects. Every source is compiled by
`mlgo-clang++` to an object. The linker then keeps all functions with external linkage, which are the interface, and
drops unused ones. Where the project has a program and an input, its executed instructions are counted, and its output
must be that of the plain build. The own tests of a project are compiled once, plainly, and run with the objects of each
variant; they need the packages libgtest-dev and libbenchmark-dev. The same command resumes; `--again` measures again.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.builds import FIRST, Sources, Variant, count_run, measure_missing, options_of, read_sources
from benchmarks.measuring import SOURCES, cpu_seconds
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.object_file import read_elf, read_symbol_table
from mlgo_gym.llvm.sizes import object_sizes

FLAGS = ("-w", "-DNDEBUG", "-ffunction-sections", "-fdata-sections")
CC, CXX = (str(Path(sys.executable).with_name(name)) for name in ("mlgo-clang", "mlgo-clang++"))
WHOLE = ("-no-pie", "-nostartfiles", "-nostdlib", "-s", "-Wl,--gc-sections", "-Wl,--unresolved-symbols=ignore-all")

VARIANTS = {
    FIRST: Variant("Oz", "default"),
    "Os": Variant("Os", "default"),
    "inline-oz": Variant("Oz", "inline-oz"),
    "last-call": Variant("Oz", "last-call"),
    "facts": Variant("Oz", "last-call", facts=True),
    "Os facts": Variant("Os", "last-call", facts=True),
}
"""The variants by name; the first one gives the interface."""


@dataclass(frozen=True)
class Library(Sources):
    """A library or program.

    Attributes:
        sources: Patterns of the sources that are linked, relative to the root of the sources.
        exclude: Regular expression of paths that are not compiled.
        flags: Further flags of the compiler.
        configure: Shell command in the root of the sources, before the first compile.
        program: Source of the program, relative to the root or to `driver`; it is linked with the others.
        run: Arguments of the program.
        folder: Folder of the run, relative to the root.
        test_sources: Patterns of the sources of the project's own tests.
        tests: Shell command in the folder of the library that links `$OBJECTS` with `$TESTS` by `$CXX`, and runs the
            tests; empty without tests.
    """

    sources: tuple[str, ...]
    exclude: str = "^$"
    flags: str = ""
    configure: str = "true"
    program: str = ""
    run: str = ""
    folder: str = "."
    test_sources: tuple[str, ...] = ()
    tests: str = ""


class Bench:
    """The unpacked sources of a library, and its builds."""

    def __init__(self, library: Library, options: argparse.Namespace) -> None:
        self.library, self._options = library, options
        self._work: Path = options.work / library.name
        self.root = self._work / "source"
        if not (self._work / "configured").exists():
            self._prepare()
        self._program = next((path for path in (self.root / library.program,) if library.program), None)
        found = {path for pattern in library.sources for path in self.root.glob(pattern)} | {self._program}
        names = [path.relative_to(self.root) for path in found if path is not None]
        self.sources = sorted(path for path in names if not re.search(library.exclude, str(path)))

    def _prepare(self) -> None:
        self.library.unpack(self._options.work / "sources", self.root)
        shutil.copytree(SOURCES / "programs", self.root / "driver")
        subprocess.run(["bash", "-ec", self.library.configure], cwd=self.root, check=True, stdout=subprocess.DEVNULL)
        (self._work / "configured").touch()

    def _outputs(self, folder: str, sources: Sequence[Path]) -> list[Path]:
        return [self._work / folder / f"{str(source).replace('/', '-')}.o" for source in sources]

    def objects(self, variant: str) -> list[Path]:
        """Return the paths of the objects of a variant."""
        return self._outputs(variant.replace(" ", "-"), self.sources)

    def facts(self, level: str) -> Path:
        """Return the link facts of the plain build of a level, which is made if it is missing."""
        path = self._work / f"{level}.facts"
        if not path.exists():
            if not all(file.exists() for file in self.objects(level)):
                self.build(level)
            LinkFacts.of_objects(file.read_bytes() for file in self.objects(level)).write(path)
        return path

    def build(self, name: str) -> float:
        """Compile all sources; return the CPU time in seconds."""
        variant = VARIANTS[name]
        settings = {"MLGO_POLICY": variant.policy, "MLGO_STRICT": "1"}
        if variant.facts:
            settings["MLGO_LINK_FACTS"] = str(self.facts(variant.level))
        objects = self.objects(name)
        shutil.rmtree(objects[0].parent, ignore_errors=True)
        start = cpu_seconds()
        self._compile_all(variant.level, settings, self.sources, objects)
        return cpu_seconds() - start

    def _compile_all(
        self, level: str, settings: Mapping[str, str], sources: Sequence[Path], outputs: Sequence[Path]
    ) -> None:
        outputs[0].parent.mkdir(exist_ok=True)
        with ThreadPoolExecutor(self._options.jobs) as pool:
            list(pool.map(partial(self._compile, f"-{level}", {**os.environ, **settings}), sources, outputs))

    def passes(self, name: str) -> bool:
        """Return whether the own tests of the library pass with the objects of a variant."""
        found = [path for pattern in self.library.test_sources for path in self.root.glob(pattern)]
        sources = [path.relative_to(self.root) for path in found]
        objects = self._outputs("tests", sources)
        if not all(file.exists() for file in objects):
            self._compile_all(VARIANTS[FIRST].level, {"MLGO_POLICY": "default"}, sources, objects)
        words = {"TESTS": objects, "OBJECTS": self.objects(name), "CXX": [Path(CXX)]}
        settings = {key: shlex.join(map(str, items)) for key, items in words.items()}
        command = ["bash", "-ec", self.library.tests]
        return subprocess.run(command, cwd=self._work, env={**os.environ, **settings}, check=False).returncode == 0

    def _compile(self, level: str, environment: Mapping[str, str], source: Path, output: Path) -> None:
        compiler = CC if source.suffix == ".c" else CXX
        words = [compiler, level, *FLAGS, *shlex.split(self.library.flags), "-c", str(source), "-o", str(output)]
        subprocess.run(words, cwd=self.root, env=dict(environment), check=True, stdin=subprocess.DEVNULL)

    def _interface(self) -> list[str]:
        names: set[str] = set()
        for file in self.objects(FIRST):
            table = read_symbol_table(read_elf(file.read_bytes()))
            if table is not None:
                is_strong = table.functions & (table.symbols["info"] >> 4 == 1)
                names.update(table.names(table.symbols[is_strong]))
        return sorted(names)

    def measure(self, name: str) -> tuple[dict[str, Any], list[str]]:
        """Build a variant; return sizes, instructions, CPU time and tests, and the digests of the outputs."""
        found: dict[str, Any] = {"seconds": round(self.build(name), 2)}
        objects = self.objects(name)
        found["objects"] = sum(object_sizes(file.read_bytes()).text for file in objects)
        interface, linked, symbols = self._interface(), self._work / f"{name}.linked", self._work / "interface"
        symbols.write_text("\n".join(f"-Wl,-u,{symbol}" for symbol in interface))
        handle = self._work / "handle.c"
        handle.write_text("void *__dso_handle = 0;\n")
        roots: list[str | Path] = [f"-Wl,-e,{interface[0]}", f"@{symbols}", "-x", "c", handle, "-x", "none"]
        subprocess.run(["g++", *WHOLE, "-o", linked, *roots, *objects], check=True)
        data = linked.read_bytes()
        sections = read_elf(data).named_sections()
        unwind = sum(len(sections.get(section, b"")) for section in (".eh_frame", ".gcc_except_table"))
        found |= {"text": object_sizes(data).text, "unwind": unwind, "file": len(data)}
        digests = []
        if self._program is not None:
            program = self._work / f"{name}.program"
            subprocess.run([CXX, "-Wl,--gc-sections", "-o", program, *objects, "-lpthread", "-ldl"], check=True)
            instructions, digest = count_run(program, self.library.run, self.root / self.library.folder)
            found |= {"instructions": instructions, "program_text": object_sizes(program.read_bytes()).text}
            digests.append(digest)
        found["tests"] = self.passes(name) if self.library.tests else None
        return found, digests


def main() -> None:
    """Measure the libraries."""
    libraries = read_sources("libraries.toml", Library)
    options = options_of(__doc__, list(libraries), list(VARIANTS), "linked_programs.json").parse_args()
    options.work = options.work.absolute()
    keys = ("objects", "text", "unwind", "file", "instructions")
    facts = {name: {"archive": library.archive} for name, library in libraries.items()}
    measure_missing(lambda name: Bench(libraries[name], options).measure, facts, keys, options)


if __name__ == "__main__":
    main()
