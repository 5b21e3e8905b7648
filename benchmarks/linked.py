"""Libraries and programs as the linker leaves them, in each way to build: the table of "Make a C++ project smaller".

    python -m benchmarks.linked --work runs/linked [--only ninja yaml-cpp] [--builds Oz rule] [--jobs 2]

Sources come from Debian (`deb-src` lines in the sources of apt) and from the package index. Their digests and flags,
and the rule that chose them, are in benchmarks/sources/linked.toml. Required are clang-22, lld-22, llvm-22-dev, g++,
valgrind, libgtest-dev, libgmock-dev and libbenchmark-dev. Policies run in the plugin. The linker keeps the roots of a
program: `main`, or the interface of a library, by default all functions with external linkage. Each build is linked
with `--gc-sections`, and with `--icf=all` too. Builds of `CHECKED` are also linked with the program and the own tests
of the project, those of `INSTRUMENTED` with the tests alone. The output of the program must be that of the plain build.
Objects are kept under the digest of their command. The same command resumes, and `--again` measures again. The results
also have sums of objects in the link view, and the CPU time of a compile of all sources in each way. The time of the
wrapper is that of the installed one: an editable install starts more slowly.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, cast

from benchmarks.linked_builds import (
    BUILDS,
    CHECKED,
    INSTRUMENTED,
    NETWORK,
    OLDER,
    PLAIN,
    RANDOM,
    VIEW,
    VIEWS,
    WAYS,
    Build,
    Program,
    read_programs,
)
from benchmarks.measuring import RESULTS, SOURCES, Table, command_line, cpu_seconds, read_json, write_json
from mlgo_clang.recipes import SUFFIX
from mlgo_gym.cache import key_of, sha256_of
from mlgo_gym.corpus import open_corpus
from mlgo_gym.deploy.c_code import DecisionCode, decision_code
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm, plugin_code
from mlgo_gym.episode.metrics.counters import count_program, find_counter
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.linker import Folding
from mlgo_gym.llvm.object_file import read_elf, read_symbol_table
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.llvm.toolchain import find_toolchain

COMPILERS = {"clang": ("clang-22", "clang++-22"), "gcc": ("gcc", "g++")}
FLAGS = ("-w", "-DNDEBUG", "-ffunction-sections", "-fdata-sections")
LLD = ("clang++-22", "-fuse-ld=lld", "-Wl,--gc-sections")
ALONE = ("-no-pie", "-nostdlib", "-Wl,-s", "-Wl,--unresolved-symbols=ignore-all", "-Wl,--defsym=__dso_handle=0")
LINKS = {"gc": (), "icf": ("-Wl,--icf=all",)}
LINK_OF = {"none": "gc", "all": "icf"}
CLANG = ("--clang", COMPILERS["clang"][0])
_CHILDREN = (resource.RUSAGE_CHILDREN,)
LTO = ("-Wl,-mllvm,-relocation-model=pic",)
"""Compiles of all builds are position-independent, by the default of Debian."""


class Bench:
    """The unpacked sources of a program, and its builds."""

    def __init__(self, program: Program, options: argparse.Namespace) -> None:
        self.program, self._options = program, options
        self._work: Path = options.work / program.name
        self.root: Path = self._work / "source"
        self._objects: Path = self._work / "objects"
        if not (self._work / "configured").exists():
            self._unpack()
        sources = self._found(program.sources)
        self.sources = [source for source in sources if not re.search(program.exclude, source)]

    def _unpack(self) -> None:
        archives: Path = self._options.work / "sources"
        archives.mkdir(parents=True, exist_ok=True)
        archive = archives / self.program.archive
        if not archive.exists():
            subprocess.run(shlex.split(self.program.get.format(python=sys.executable)), cwd=archives, check=True)
        if sha256_of(archive) != self.program.sha256:
            raise SystemExit(f"expected {archive} with the SHA-256 {self.program.sha256}, got another; remove the file")
        shutil.rmtree(self._work, ignore_errors=True)
        with tarfile.open(archive) as file:
            file.extractall(self._work / "unpacked", filter="tar")
        (unpacked,) = (self._work / "unpacked").iterdir()
        unpacked.rename(self.root)
        shutil.copytree(SOURCES / "programs", self.root / "driver")
        subprocess.run(["bash", "-ec", self.program.configure], cwd=self.root, check=True, stdout=subprocess.DEVNULL)
        self._objects.mkdir()
        (self._work / "configured").touch()

    def _found(self, patterns: Sequence[str]) -> list[str]:
        return sorted({str(path.relative_to(self.root)) for pattern in patterns for path in self.root.glob(pattern)})

    def compile(self, build: Build, sources: Sequence[str]) -> list[Path]:
        """Return the objects of sources in their order; compile those that are missing."""
        if "," in build.policy:
            policies = [policy if policy != "default" or build.facts else "" for policy in build.policy.split(",")]
            objects = zip(*(self.compile(replace(build, policy=policy), sources) for policy in policies), strict=True)
            return [min(files, key=lambda file: object_sizes(file.read_bytes()).loaded) for files in objects]
        words, settings = [*FLAGS, *build.flags, *shlex.split(self.program.flags)], {}
        digests = [self.program.sha256, self.program.configure, _version(build.compiler)]
        if build.policy and not build.compiles:
            plugin = _plugin(build.policy, self._options.work)
            words.append(f"-fpass-plugin={plugin}")
            digests.append(sha256_of(plugin))
        if build.facts:
            settings["MLGO_LINK_FACTS"] = str(self.facts(build.flags[0], build.facts))
            digests.append(sha256_of(settings["MLGO_LINK_FACTS"]))
        if build.compiles:
            settings |= {"MLGO_POLICY": build.policy, "MLGO_RECIPES": str(self.recipes(build)), "MLGO_STRICT": "1"}
            digests += [key_of(path.name, path.read_text()) for path in _recipes(settings["MLGO_RECIPES"])]

        def compiled(source: str) -> Path:
            output = self._objects / f"{key_of(source, words, digests)}.o"
            if not output.exists():
                part = output.with_suffix(f".{os.getpid()}")
                self._run(build, [*words, "-c", source, "-o", str(part)], settings)
                part.rename(output)
            return output

        with ThreadPoolExecutor(self._options.jobs) as pool:
            return list(pool.map(compiled, sources))

    def _run(self, build: Build, words: Sequence[str], settings: Mapping[str, str]) -> None:
        is_cxx = not words[-3].endswith((".c", ".bc"))
        command = [COMPILERS[build.compiler][is_cxx]]
        if build.compiles:
            command = [_installed("mlgo-clang++" if is_cxx else "mlgo-clang"), f"--mlgo-clang={command[0]}"]
        settings = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **settings}
        subprocess.run([*command, *words], cwd=self.root, env=settings, check=True, stdin=subprocess.DEVNULL)

    def cpu_time(self) -> dict[str, Any]:
        """Return the CPU seconds of a compile of all sources by way, and the objects of wrapper and plugin that differ.

        These are bytes of code by source and policy; with 0 bytes only names differ. All ways compile a source before
        the next one, under the same load. The first source is compiled once more before.
        """
        settings = {"MLGO_LINK_FACTS": str(self.facts("-Oz", "none")), "MLGO_STRICT": "1"}
        words, seconds = [*FLAGS, "-Oz", *shlex.split(self.program.flags)], dict.fromkeys(WAYS, 0.0)
        differing = dict[str, int]()
        with tempfile.NamedTemporaryFile(suffix=".o") as file:
            for number, source in enumerate([self.sources[0], *self.sources]):
                objects = dict[str, bytes]()
                for name in WAYS:
                    way, _, policy = name.partition(", ")
                    plugin = [f"-fpass-plugin={_plugin(policy, self._options.work)}"] if way == "plugin" else []
                    line, start = [*words, *plugin, "-c", source, "-o", file.name], cpu_seconds(_CHILDREN)
                    self._run(Build(compiles=way == "wrapper"), line, settings | {"MLGO_POLICY": policy})
                    seconds[name] += bool(number) * (cpu_seconds(_CHILDREN) - start)
                    if (data := Path(file.name).read_bytes()) != objects.setdefault(policy, data):
                        differing[f"{source}, {policy}"] = object_sizes(data).text - object_sizes(objects[policy]).text
        return {name: round(value, 2) for name, value in seconds.items()} | {"differences": differing}

    def facts(self, level: str, folding: str) -> Path:
        """Return the file of the link facts of the plain build of a level, or of an older version."""
        if folding == "older":
            return Bench(read_programs()[self.program.older], self._options).facts(level, "none")
        objects = self.compile(Build((level,)), self.sources)
        path = self._work / f"{level}-{folding}.facts"
        LinkFacts.of_objects((file.read_bytes() for file in objects), cast("Folding", folding)).write(path)
        return path

    def recipes(self, build: Build) -> Path:
        """Search the modules of a recorded build in the link view; return the folder of the recipes."""
        level, facts = build.flags[0], build.facts
        folder, corpus = self._work / f"search{level}-{facts}-{build.compiles}", self.corpus(level, facts)
        recipes, output = folder / "recipes", folder / "search.jsonl"
        if (folder / "done").exists():
            return recipes
        recipes.mkdir(parents=True, exist_ok=True)
        search = ["search", "mlgo/Inline-v0", "--corpus", str(corpus), *CLANG, "--trust-flags", "--link-view"]
        search += ["--set", f"link_facts={self.facts(level, facts)}", "--start", build.policy]
        search += ["--compiles", str(build.compiles), "--recipes", str(recipes), "--output", str(output)]
        subprocess.run([_installed("mlgo-gym"), *search, "--jobs", str(self._options.jobs)], check=True)
        (folder / "done").touch()
        return recipes

    def corpus(self, level: str, folding: str) -> Path:
        """Record the plain build of a level and a link with this folding; return the folder of the corpus."""
        folder = self._work / f"recorded{level}-{folding}"
        if not (folder / "links.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            (self.root / "recorded").mkdir(exist_ok=True)  # links of a temporary folder are probes
            words = [*FLAGS, level, *shlex.split(self.program.flags), "-c"]
            objects = [f"recorded/{number}.o" for number in range(len(self.sources))]
            lines = [
                f"${'CC' if source.endswith('.c') else 'CXX'} {shlex.join([*words, source, '-o', output])}"
                for source, output in zip(self.sources, objects, strict=True)
            ]
            link = [*LLD[1:], *ALONE, *LINKS[LINK_OF[folding]], "-o", "recorded/linked"]
            lines.append(f"$CXX {shlex.join([*link, f'@{self._roots}', *objects])}")
            record = [_installed("mlgo-gym"), "corpus", "record", *CLANG, "--optimize", level[1:]]
            record += ["--output", str(folder), "--", "sh", "-ec", "\n".join(lines)]
            subprocess.run(record, cwd=self.root, check=True)
        return folder

    @cached_property
    def _roots(self) -> Path:
        """Return a file with the arguments of a link that keeps the roots of the program."""
        roots = set[str]()
        for file in self.compile(BUILDS[PLAIN], self.sources):
            table = read_symbol_table(read_elf(file.read_bytes()))
            if table is not None:
                roots.update(table.names(table.symbols[table.functions & (table.symbols["info"] >> 4 == 1)]))
        kept = sorted(root for root in roots if re.search(self.program.roots, root))
        path = self._work / "roots"
        path.write_text("\n".join([f"-Wl,-e,{kept[0]}", *(f"-Wl,-u,{root}" for root in kept)]))
        return path

    def link(self, objects: Sequence[Path], arguments: Sequence[str]) -> list[int]:
        """Link the roots and what they need; return bytes of code, of unwind tables, and of the stripped file."""
        with tempfile.NamedTemporaryFile() as file:
            subprocess.run([*LLD, *ALONE, *arguments, "-o", file.name, f"@{self._roots}", *objects], check=True)
            data = Path(file.name).read_bytes()
        sections = read_elf(data).named_sections()
        unwind = sum(len(sections.get(section, b"")) for section in (".eh_frame", ".gcc_except_table"))
        return [object_sizes(data).text, unwind, len(data)]

    def measure(self, name: str) -> dict[str, Any]:
        """Return the bytes of the objects and of the linked files by link, and the number of recipes."""
        build, known = self.program.builds[name], {path.name for path in self._objects.iterdir()}
        if build.compiles:
            self.recipes(build)
            subprocess.run([_installed("mlgo-gym"), "cc-stats", "--zero"], check=True, stdout=subprocess.DEVNULL)
        objects = self.compile(build, self.sources)
        is_lto = any("-flto" in flag for flag in build.flags)
        text = None if is_lto else sum(object_sizes(path.read_bytes()).text for path in objects)
        row: dict[str, Any] = {"objects": text}
        if build.compiles:
            row["recipes"] = len(_recipes(str(self.recipes(build))))
            counted = [_installed("mlgo-gym"), "cc-stats", "--all", "--json"]
            used = json.loads(subprocess.check_output(counted)).get("compiled by a recipe", 0)
            if not {path.name for path in objects} & known and used < row["recipes"]:
                raise SystemExit(f"{self.program.name}: expected {row['recipes']} recipes in use, got {used}")
        lto = (*build.flags, *LTO, *build.link) if is_lto else ()
        if name == PLAIN:
            row["whole"] = self.link(objects, ("-Wl,--no-gc-sections",))
        return row | {kind: self.link(objects, (*arguments, *lto)) for kind, arguments in LINKS.items()}

    def check(self, name: str) -> dict[str, Any]:
        """Return executed instructions and digest of the output of the run, and whether the own tests pass."""
        row: dict[str, Any] = {"instructions": None}
        objects = self.compile(self.program.builds[name], self.sources)
        if self.program.run:
            program = self._work / "program"
            subprocess.run([*LLD, "-o", program, *objects, *shlex.split(self.program.libraries)], check=True)
            words = [str(program), *shlex.split(self.program.run)]
            counted = count_program(words, self.root / self.program.folder, find_counter())
            row = {"instructions": counted.instructions, "output": hashlib.sha256(counted.output).hexdigest()}
        return row | self.test(name)

    def test(self, name: str) -> dict[str, bool]:
        """Return whether the own tests pass; nothing without tests."""
        row: dict[str, bool] = {}
        build = self.program.builds[name]
        objects = self.compile(build, self.sources)
        if self.program.tests:
            tests = self.compile(BUILDS[PLAIN], self._found(self.program.test_sources))
            named = {}
            for kind, sources, files in (
                ("TESTS", self._found(self.program.test_sources), tests),
                ("OBJECTS", self.sources, objects),
            ):
                folder = self._work / f"linked-{kind.lower()}"
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                links = [folder / f"{source.replace('/', '-')}.o" for source in sources]
                for link, file in zip(links, files, strict=True):
                    link.symlink_to(file)
                named[kind] = shlex.join(map(str, links))
            command, options = ["bash", "-ec", self.program.tests], build.link
            if "-fPIC" in build.flags:
                named["OBJECTS"] = str(self._work / "libprogram.so")
                subprocess.run([*LLD, "-shared", "-o", named["OBJECTS"], *objects], check=True)
                options = ()
            settings = {**os.environ, **named, "CXX": shlex.join([*LLD, *options]), "LLVM_PROFILE_FILE": os.devnull}
            row["tests"] = subprocess.run(command, cwd=self._work, env=settings, check=False).returncode == 0
        return row

    def view(self, folding: str) -> dict[str, list[int]]:
        """Return by policy the bytes of the objects of all modules in the link view, and those of the linked file."""
        clang, facts, plain = find_toolchain(CLANG[1]), self.facts("-Oz", folding), self.corpus("-Oz", folding)
        corpus = open_corpus(plain, toolchain=clang, trust_flags=True, link_view=True, link_facts=facts)
        modules = [str(module.bitcode.resolve()) for module in corpus]
        found, policies = {}, {policy or "clang": policy for policy in VIEW}
        if NETWORK.exists() and folding == "none":
            policies["network"] = f"mlp:{NETWORK}"
        for name, policy in policies.items():
            build = Build(policy=policy, facts=folding if name in ("last-call", "network") else "")
            objects = self.compile(build, modules)
            text = sum(object_sizes(path.read_bytes()).text for path in objects)
            found[name] = [text, self.link(objects, LINKS[LINK_OF[folding]])[0]]
        return found


FURTHER: dict[str, Callable[[Bench], dict[str, Any]]] = {"CPU time": Bench.cpu_time}
FURTHER |= {view: partial(Bench.view, folding=folding) for view, folding in VIEWS.items()}
"""Measurements beside the builds."""


def _recipes(folder: str) -> list[Path]:
    return sorted(Path(folder).glob(f"*{SUFFIX}"))


def _installed(command: str) -> str:
    return str(Path(sysconfig.get_path("scripts"), command))


def _version(compiler: str) -> str:
    return subprocess.run([COMPILERS[compiler][1], "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout


@cache
def _plugin(policy: str, work: Path) -> Path:
    features = ("cost_estimate", "callee_basic_block_count", "caller_basic_block_count")
    code = decision_code(policy, callee_features=True) if policy != "random" else DecisionCode(policy, features, RANDOM)
    llvm = installed_llvm("llvm-config-22")
    path = work / f"{policy.replace('/', '-')}-{key_of(plugin_code(code, llvm))}.so"
    if not path.exists():
        build_plugin(code, llvm, path)
    return path


def main() -> None:
    """Measure what the results lack, and print it against the plain build."""
    programs = read_programs()
    parser = command_line(__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder of the sources and builds")
    parser.add_argument("--only", nargs="+", choices=programs, default=list(programs), help="programs (default: all)")
    known = [*BUILDS, *INSTRUMENTED, OLDER, *FURTHER]
    parser.add_argument("--builds", nargs="+", choices=known, default=known, help="builds (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="concurrent compiles (default: 2)")
    parser.add_argument("--again", action="store_true", help="measure again what the results have")
    parser.add_argument("--output", type=Path, default=RESULTS / "linked.json", help="JSON file of the results")
    options = parser.parse_args()
    options.work = options.work.absolute()
    benches = {name: Bench(programs[name], options) for name in options.only}
    table = Table({"program": "<10", "build": "<20", **dict.fromkeys(LINKS, ">+12.2%"), "tests": ">8"})
    built = (Bench.measure, "gc", [*BUILDS, OLDER])
    for step, key, builds in (built, (Bench.check, "instructions", CHECKED), (Bench.test, "tests", INSTRUMENTED)):
        for build in (build for build in builds if build in options.builds):
            for name, bench in benches.items():
                if build not in bench.program.builds or (build in INSTRUMENTED and not bench.program.tests):
                    continue
                found = read_json(options.output, {}).get(name, {}).get("builds", {})
                if options.again or key not in found.get(build, {}):
                    new = step(bench, build)
                    results = read_json(options.output, {})  # another call may have written others
                    row = results.setdefault(name, {"archive": bench.program.archive, "group": bench.program.group})
                    row |= {"older": bench.program.older, "modules": len(bench.sources)}
                    found = row.setdefault("builds", {})
                    found.setdefault(build, {}).update(new)
                    write_json(options.output, results)
                row, plain = found[build], found[PLAIN]
                if row.get("output", plain.get("output")) != plain.get("output"):
                    raise SystemExit(f"{name}, {build}: expected the output of the plain build, got another")
                changes = [row[kind][0] / plain[kind][0] - 1 if kind in row else math.nan for kind in LINKS]
                table.row(name, build, *changes, str(row.get("tests", "")))
    for key, name in ((key, name) for key in FURTHER if key in options.builds for name in benches):
        if not programs[name].older and (options.again or key not in read_json(options.output, {})[name]):
            found = FURTHER[key](benches[name])
            results = read_json(options.output, {})
            results[name].setdefault(key, {}).update(found)
            write_json(options.output, results)
            print(name, key, found, flush=True)


if __name__ == "__main__":
    main()
