"""Ten programs that everybody knows, built by plain clang, a plugin, the wrapper and recipes: sizes and costs.

    python -m benchmarks.ten_programs --work runs/ten                   # all; the same command resumes
    python -m benchmarks.ten_programs --work runs/ten --only Lua,curl --variants Oz,plugin --again

Each program is built by its own commands (benchmarks/ten_projects.py) in each variant. The table has the executable
sections of the linked program, its size after strip, executed instructions of a fixed workload, and CPU time of the
build. Every output must equal that of the first variant, and the programs' own tests must pass. Sources come from the
package index and from Debian (`deb-src` lines in the sources of apt). Required are make, cmake, perl, tclsh,
googletest, valgrind, and for the plugin clang-22 and llvm-22-dev. `benchmarks.build_cost` times builds alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measuring import Table, command_line, cpu_seconds, write_json
from benchmarks.ten_projects import FLAGS, LINK, PROJECTS, Project
from mlgo_clang.compiler import compiler_command
from mlgo_clang.counters import parse
from mlgo_gym.deploy.c_code import decision_code
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.tasks.metrics import find_counter
from mlgo_gym.tasks.metrics.counters import count_program

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "ten_programs.json"
SOURCES = Path(__file__).parent / "sources" / "programs"


@dataclass(frozen=True)
class Variant:
    """How the programs are compiled.

    Attributes:
        level: Optimisation level.
        plugin: Policy of a pass plugin; empty for none.
        policy: Policy of the wrapper; empty without the wrapper.
        compiles: Number of compiles of a search for recipes; 0 without recipes.
    """

    level: str
    plugin: str = ""
    policy: str = ""
    compiles: int = 0


VARIANTS = {
    "Oz": Variant("Oz"),
    "Os": Variant("Os"),
    "O2": Variant("O2"),
    "plugin": Variant("Oz", plugin="inline-oz"),
    "Os plugin": Variant("Os", plugin="inline-os"),
    "wrapper": Variant("Oz", policy="inline-oz"),
    "Os wrapper": Variant("Os", policy="inline-os"),
    "recipes 10": Variant("Oz", policy="inline-oz", compiles=10),
    "recipes 50": Variant("Oz", policy="inline-oz", compiles=50),
    "Os recipes 10": Variant("Os", policy="inline-os", compiles=10),
}
"""The variants by name; the first one gives the expected output."""


@dataclass
class Outcome:
    """Results of one program in one variant.

    Attributes:
        text: Bytes of the executable sections of the linked program.
        file: Bytes of the program after strip.
        instructions: Executed instructions of all runs.
        seconds: CPU seconds of each build; with recipes, of builds that replay them.
        search_seconds: CPU seconds of the build that searched; None without recipes.
        tests: Whether the program's own tests passed; None if it has none, or they did not run.
        counters: Counters of `mlgo-clang` in the first build.
    """

    text: int
    file: int
    instructions: int
    seconds: list[float]
    search_seconds: float | None
    tests: bool | None
    counters: dict[str, int] = field(default_factory=dict)


class Bench:
    """A configured project.

    Args:
        project: The project.
        work: Folder of all projects, with the downloaded sources.
        clang: The compiler, as for `mlgo-clang`.
        jobs: Number of concurrent jobs of a build.

    Attributes:
        compiles: File with a line for each command of the compilers: folder, name of the compiler, arguments.
        project: The project.
    """

    def __init__(self, project: Project, work: Path, clang: str, jobs: int) -> None:
        self.project = project
        self._clang = clang
        self._jobs = jobs
        self._work = work
        self._folder = work / project.name
        self._build = self._folder / "build"
        self._cache = work / "cache"
        self._log = (work / f"{project.name}.log").open("ab")
        self.compiles = self._folder / "compiles"
        if not (self._folder / "configured").exists():
            self._prepare(fetch(project, work / "sources"))

    def _prepare(self, source: Path) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        with tarfile.open(source) as archive:
            archive.extractall(self._folder / "unpacked", filter="tar")
        (unpacked,) = (self._folder / "unpacked").iterdir()
        unpacked.rename(self._folder / "source")
        shutil.copytree(SOURCES, self._folder / "driver")
        # Configured builds keep the names of their compilers; the level and the policy vary.
        for name in ("BENCH_CC", "BENCH_CXX"):
            script = self._folder / name
            # Each compile can be repeated: a line has its folder and its words.
            record = f'printf "%s\\037" "$PWD" {name} "$@" >> "$BENCH_LOG"; echo >> "$BENCH_LOG"'
            script.write_text(f'#!/bin/sh\n[ -z "$BENCH_LOG" ] || {{ {record}; }}\nexec ${name} "$@" $BENCH_LEVEL\n')
            script.chmod(0o755)
        self._build.mkdir()
        self._run(self.project.configure, VARIANTS["Oz"])
        (self._folder / "configured").touch()

    def environment(self, variant: Variant, search: int = 0) -> Mapping[str, str]:
        """Return the environment variables of a variant."""
        commands = [[*compiler_command(self._clang, mode)] for mode in ("gcc", "g++")]
        extra = {}
        if variant.plugin:
            commands = [[*command, f"-fpass-plugin={self._work / variant.plugin}.so"] for command in commands]
        elif variant.policy:
            scripts = Path(sys.executable).parent
            commands = [[str(scripts / "mlgo-clang")], [str(scripts / "mlgo-clang++")]]
            extra = {"MLGO_POLICY": variant.policy, "MLGO_CLANG": self._clang}
        if variant.compiles:
            folder = self._folder / f"recipes-{variant.level}-{variant.compiles}"
            extra |= {"MLGO_RECIPES": str(folder), "MLGO_SEARCH": str(search)}
        cc, cxx = map(shlex.join, commands)
        variables = {
            "BENCH_CC": cc,
            "BENCH_CXX": cxx,
            "BENCH_LEVEL": f"-{variant.level}",
            "BENCH_LOG": str(self.compiles),
            "CC": str(self._folder / "BENCH_CC"),
            "CXX": str(self._folder / "BENCH_CXX"),
            "FLAGS": FLAGS,
            "LINK": LINK,
            "JOBS": str(self._jobs),
            "MLGO_CACHE": str(self._cache),
        }
        return {**os.environ, **variables, **extra}

    def _run(self, command: str, variant: Variant, search: int = 0, *, check: bool = True) -> tuple[int, float]:
        """Run a shell command in the build folder; return its exit status and its CPU seconds."""
        start = cpu_seconds()
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=self._build,
            env=self.environment(variant, search),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            check=False,
        )
        if check and done.returncode:
            raise SystemExit(f"{self.project.name}: {command[:80]!r} failed; {self._log.name} has its output")
        return done.returncode, cpu_seconds() - start

    def make(self, variant: Variant, search: int = 0) -> float:
        """Clean and build; return the CPU seconds of the build."""
        self._run(self.project.clean, variant)
        (self._build / self.project.program).unlink(missing_ok=True)
        return self._run(self.project.build, variant, search)[1]

    def measure(self, variant: Variant, rounds: int, *, tests: bool) -> tuple[Outcome, list[str]]:
        """Build in a variant; return the results and the digest of each output."""
        search_seconds = None
        if variant.compiles:
            search_seconds = self.make(variant, variant.compiles)
        self._counters()
        seconds = [self.make(variant)]
        counters = self._counters()
        seconds += [self.make(variant) for _ in range(rounds - 1)]
        program = self._build / self.project.program
        text = object_sizes(program.read_bytes()).text
        with tempfile.TemporaryDirectory() as scratch:
            stripped = Path(scratch) / "program"
            subprocess.run(["strip", "-o", stripped, program], check=True)
            size = stripped.stat().st_size
        instructions, digests = self._count(program)
        passed = None
        if tests and self.project.tests:
            passed = self._run(self.project.tests, variant, check=False)[0] == 0
        return Outcome(text, size, instructions, seconds, search_seconds, passed, counters), digests

    def _count(self, program: Path) -> tuple[int, list[str]]:
        """Return the executed instructions of all runs, and the digest of each output."""
        instructions, digests = 0, []
        source = str(self._folder / "source")
        for run in self.project.runs:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                for file in self.project.files:
                    shutil.copyfile(SOURCES / file, folder / file)
                if self.project.input is not None:
                    (folder / "input").write_text(self.project.input(source), encoding="utf-8")
                found = count_program([str(program), *shlex.split(run)], folder, find_counter())
            instructions += found.instructions or 0
            digests.append(hashlib.sha256(found.output).hexdigest())
        return instructions, digests

    def _counters(self) -> dict[str, int]:
        """Return and reset the counters of `mlgo-clang`."""
        path = self._cache / "mlgo-clang" / "counters"
        counts = parse(path.read_bytes()) if path.exists() else {}
        path.unlink(missing_ok=True)
        return counts


def fetch(project: Project, folder: Path) -> Path:
    """Return the archive of a project; download it if the folder lacks it, and check its digest."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / project.archive
    if not path.exists():
        subprocess.run(shlex.split(project.get.format(python=sys.executable)), cwd=folder, check=True)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != project.sha256:
        raise SystemExit(f"expected {path.name} with the SHA-256 {project.sha256}, got {found}; remove the file")
    return path


def add_build_options(parser: argparse.ArgumentParser, *, clang: str, results: Path) -> None:
    """Add the options of the programs that build, with these defaults of `--clang` and `--output`."""
    parser.add_argument("--jobs", type=int, default=2, help="concurrent jobs of a build (default: 2)")
    parser.add_argument("--clang", default=clang, help="the compiler of all builds; `bundled` loads no plugin")
    parser.add_argument("--llvm-config", default="llvm-config-22", help="the compiler's llvm-config, for plugins")
    parser.add_argument("--work", type=Path, required=True, help="folder of the sources and builds")
    parser.add_argument("--output", type=Path, default=results, help="JSON file of the results")


def prepare_plugins(work: Path, variants: Mapping[str, Variant], options: argparse.Namespace) -> None:
    """Build the plugins of the variants."""
    for variant in variants.values():
        plugin = work / f"{variant.plugin}.so"
        if variant.plugin and not plugin.exists():
            llvm = installed_llvm(options.llvm_config)
            build_plugin(decision_code(variant.plugin, callee_features=True), llvm, plugin)


def show(results: Mapping[str, Any]) -> None:
    """Print the table: each variant against the first one."""
    base, *others = [name for name in VARIANTS if any(name in row["variants"] for row in results.values())]
    table = Table(
        {"program": "<10", "variant": "<12", ".text": ">10,", "file": ">10,", "instructions": ">14,"}
        | {"build": ">7.1f", "tests": "<5"}
    )
    for name, row in results.items():
        plain = row["variants"][base]
        for variant in (base, *others):
            found = row["variants"].get(variant)
            if found is None:
                continue
            tests = {True: "pass", False: "FAIL", None: "-"}[found["tests"]]
            table.row(name, variant, found["text"], found["file"], found["instructions"], min(found["seconds"]), tests)
            if variant != base:
                changes = [found[key] / plain[key] - 1 for key in ("text", "file", "instructions")]
                print(f"{'':24}{changes[0]:>+10.2%}  {changes[1]:>+10.2%}  {changes[2]:>+14.2%}")


def main() -> None:
    """Measure what the results lack, print the table, write."""
    parser = command_line(__doc__)
    parser.add_argument("--only", default="", help="programs, separated by commas (default: all)")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="variants, separated by commas")
    parser.add_argument("--rounds", type=int, default=1, help="timed builds per variant (default: 1)")
    add_build_options(parser, clang="clang-22", results=RESULTS)
    parser.add_argument("--no-tests", action="store_true", help="do not run the programs' tests")
    parser.add_argument("--again", action="store_true", help="measure again what the results have")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.output.read_bytes()) if options.output.exists() else {}
    chosen = {name: VARIANTS[name] for name in VARIANTS if name in options.variants.split(",")}
    work = options.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    prepare_plugins(work, chosen, options)
    for project in PROJECTS:
        if options.only and project.name not in options.only.split(","):
            continue
        row = results.setdefault(
            project.name,
            {"archive": project.archive, "trained": project.trained, "clang": options.clang, "variants": {}},
        )
        missing = [name for name in chosen if options.again or name not in row["variants"]]
        if not missing:
            continue
        bench = Bench(project, work, options.clang, options.jobs)
        for name in missing:
            outcome, digests = bench.measure(chosen[name], options.rounds, tests=not options.no_tests)
            if name == next(iter(VARIANTS)):
                row["outputs"] = digests
            expected = row.setdefault("outputs", digests)
            if digests != expected:
                raise SystemExit(f"{project.name}, {name}: expected outputs {expected}, got {digests}")
            row["variants"][name] = vars(outcome)
            write_json(options.output, results)
            print(f"{project.name}, {name}: {vars(outcome)}", flush=True)
    show(results)


if __name__ == "__main__":
    main()
