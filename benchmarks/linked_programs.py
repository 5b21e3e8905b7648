"""C++ libraries and programs of held-out projects, linked whole: plain builds, policies, and link facts.

    python -m benchmarks.linked_programs --work runs/linked [--only ninja,yaml-cpp] [--variants Oz,facts] [--jobs 2]

Sources come from Debian (`deb-src` lines in the sources of apt) and from the package index; their digests are in
benchmarks/sources/libraries.toml. No bundled policy was trained on these projects. Every source is compiled by
`mlgo-clang++` to an object. The linker then keeps all functions with external linkage, which are the interface, and
drops unused ones. Where the project has a program and an input, its executed instructions are counted, and its output
must be that of the plain build. The same command resumes; `--again` measures again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measuring import (
    RESULTS,
    SOURCES,
    Table,
    check_outputs,
    command_line,
    cpu_seconds,
    fetch,
    read_json,
    write_json,
)
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.object_file import object_sizes, read_elf, read_symbol_table
from mlgo_gym.tasks.metrics import find_counter
from mlgo_gym.tasks.metrics.counters import count_program

FLAGS = ("-w", "-DNDEBUG", "-ffunction-sections", "-fdata-sections")
WHOLE = ("-no-pie", "-nostartfiles", "-nostdlib", "-s", "-Wl,--gc-sections", "-Wl,--unresolved-symbols=ignore-all")


@dataclass(frozen=True)
class Variant:
    """How the sources are compiled.

    Attributes:
        level: Optimisation level.
        policy: Policy of the wrapper.
        facts: Whether the policy gets the link facts of the plain build of this level.
        compiles: Number of compiles of a search for recipes; 0 without recipes.
    """

    level: str
    policy: str = "default"
    facts: bool = False
    compiles: int = 0


VARIANTS = {
    "Oz": Variant("Oz"),
    "Os": Variant("Os"),
    "inline-oz": Variant("Oz", "inline-oz"),
    "last-call": Variant("Oz", "last-call"),
    "facts": Variant("Oz", "last-call", facts=True),
    "Os last-call": Variant("Os", "last-call"),
    "Os facts": Variant("Os", "last-call", facts=True),
    "facts, recipes": Variant("Oz", "last-call", facts=True, compiles=10),
}
"""The variants by name; the first one gives the interface and the expected output."""


@dataclass(frozen=True)
class Library:
    """A library or program.

    Attributes:
        archive: File name of its sources.
        sha256: Digest of that file in hexadecimal.
        get: Command that downloads the file.
        sources: Patterns of the sources that are linked, relative to the root of the sources.
        exclude: Regular expression of paths that are not compiled.
        flags: Further flags of the compiler.
        configure: Shell command in the root of the sources, before the first compile.
        program: Source of the program, relative to the root or to `driver`; it is linked with the others.
        run: Arguments of the program.
        folder: Folder of the run, relative to the root.
    """

    archive: str
    sha256: str
    get: str
    sources: tuple[str, ...]
    exclude: str = "^$"
    flags: str = ""
    configure: str = "true"
    program: str = ""
    run: str = ""
    folder: str = "."


class Bench:
    """The unpacked sources of a library, and its builds."""

    def __init__(self, name: str, library: Library, options: argparse.Namespace) -> None:
        self.name, self.library, self._options = name, library, options
        self._work: Path = options.work / name
        self.root = self._work / "source"
        if not (self._work / "configured").exists():
            self._prepare()
        self._program = next((path for path in (self.root / library.program,) if library.program), None)
        found = {path for pattern in library.sources for path in self.root.glob(pattern)} | {self._program}
        names = [path.relative_to(self.root) for path in found if path is not None]
        self.sources = sorted(path for path in names if not re.search(library.exclude, str(path)))

    def _prepare(self) -> None:
        archive = fetch(self.library.archive, self.library.sha256, self.library.get, self._options.work / "sources")
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir(parents=True)
        with tarfile.open(archive) as file:
            file.extractall(self._work / "unpacked", filter="tar")
        (unpacked,) = (self._work / "unpacked").iterdir()
        unpacked.rename(self.root)
        shutil.copytree(SOURCES / "programs", self.root / "driver")
        subprocess.run(["bash", "-ec", self.library.configure], cwd=self.root, check=True, stdout=subprocess.DEVNULL)
        (self._work / "configured").touch()

    def objects(self, variant: str) -> list[Path]:
        """Return the paths of the objects of a variant."""
        return [self._work / variant / f"{str(source).replace('/', '-')}.o" for source in self.sources]

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
        if variant.compiles:
            settings |= {"MLGO_RECIPES": str(self._work / "recipes"), "MLGO_SEARCH": str(variant.compiles)}
        folder = self._work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        start = cpu_seconds()
        with ThreadPoolExecutor(self._options.jobs) as pool:
            compile_one = partial(self._compile, f"-{variant.level}", {**os.environ, **settings})
            list(pool.map(compile_one, self.sources, self.objects(name)))
        return cpu_seconds() - start

    def _compile(self, level: str, environment: Mapping[str, str], source: Path, output: Path) -> None:
        compiler = "mlgo-clang" if source.suffix == ".c" else "mlgo-clang++"
        words = [compiler, level, *FLAGS, *shlex.split(self.library.flags), "-c", str(source), "-o", str(output)]
        words[0] = str(Path(sys.executable).with_name(compiler))
        subprocess.run(words, cwd=self.root, env=dict(environment), check=True, stdin=subprocess.DEVNULL)

    def _interface(self) -> list[str]:
        names: set[str] = set()
        for file in self.objects(next(iter(VARIANTS))):
            table = read_symbol_table(read_elf(file.read_bytes()))
            if table is not None:
                is_strong = table.functions & (table.symbols["info"] >> 4 == 1)
                names.update(table.names(table.symbols[is_strong]))
        return sorted(names)

    def measure(self, name: str) -> tuple[dict[str, Any], list[str]]:
        """Build a variant; return sizes, instructions and CPU time, and the digests of the outputs."""
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
        found |= {"text": object_sizes(data).text, "unwind": unwind_bytes(data), "file": len(data)}
        digests = []
        if self._program is not None:
            program = self._work / f"{name}.program"
            compiler = Path(sys.executable).with_name("mlgo-clang++")
            subprocess.run([compiler, "-Wl,--gc-sections", "-o", program, *objects, "-lpthread", "-ldl"], check=True)
            counted = count_program(
                [str(program), *shlex.split(self.library.run)], self.root / self.library.folder, find_counter()
            )
            found |= {"instructions": counted.instructions, "program_text": object_sizes(program.read_bytes()).text}
            digests.append(hashlib.sha256(counted.output).hexdigest())
        return found, digests


def unwind_bytes(data: bytes) -> int:
    """Return the bytes of the sections for unwinding of a linked file, `.eh_frame` and `.gcc_except_table`."""
    elf = read_elf(data)
    at = 62 if elf.wide else 50
    names = int.from_bytes(data[at : at + 2], "little")  # e_shstrndx
    strings = bytes(elf.contents(names))
    found = 0
    for index, section in enumerate(elf.sections):
        start = int(section["name"])
        if strings[start : strings.index(b"\0", start)] in (b".eh_frame", b".gcc_except_table"):
            found += len(elf.contents(index))
    return found


def read_libraries() -> dict[str, Library]:
    """Return the libraries by name; needs Python 3.11."""
    tables: dict[str, dict[str, Any]] = importlib.import_module("tomllib").loads(
        (SOURCES / "libraries.toml").read_text()
    )
    return {name: Library(**{**table, "sources": tuple(table["sources"])}) for name, table in tables.items()}


def main() -> None:
    """Measure what the results lack, print and write: each variant against the first one."""
    libraries = read_libraries()
    parser = command_line(__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder of the sources and builds")
    parser.add_argument("--only", default=",".join(libraries), help="libraries, separated by commas (default: all)")
    parser.add_argument("--variants", default="/".join(VARIANTS), help="variants, separated by slashes (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="concurrent compiles (default: 2)")
    parser.add_argument("--again", action="store_true", help="measure again what the results have")
    parser.add_argument(
        "--output", type=Path, default=RESULTS / "linked_programs.json", help="JSON file of the results"
    )
    options = parser.parse_args()
    options.work = options.work.absolute()
    results = read_json(options.output, {})
    columns = {"library": "<10", "variant": "<15", "objects": ">+8.2%", ".text": ">+8.2%", "unwind": ">+8.2%"}
    table = Table({**columns, "file": ">+8.2%", "instructions": ">+12.2%", "seconds": ">8.1f"})
    first = next(iter(VARIANTS))
    names: Sequence[str] = options.variants.split("/")
    for name in options.only.split(","):
        row = results.setdefault(name, {"archive": libraries[name].archive, "variants": {}})
        for variant in names:
            if variant in row["variants"] and not options.again:
                continue
            bench = Bench(name, libraries[name], options)
            found, digests = bench.measure(variant)
            check_outputs(row, f"{name}, {variant}", digests, is_first=variant == first)
            row["variants"][variant] = found
            write_json(options.output, results)
            plain = row["variants"][first]
            keys = ("objects", "text", "unwind", "file", "instructions")
            changes = [found[key] / plain[key] - 1 if plain.get(key) else math.nan for key in keys]
            table.row(name, variant, *changes, found["seconds"])


if __name__ == "__main__":
    main()
