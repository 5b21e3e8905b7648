"""Ten programs that everybody knows, built by plain clang, a plugin, the wrapper and recipes: sizes and costs.

    python -m benchmarks.ten_programs --work runs/ten                   # all; the same command resumes
    python -m benchmarks.ten_programs --work runs/ten --only Lua,curl --variants Oz,plugin --again

Each program is built by its own commands (benchmarks/sources/programs/projects.toml) in each variant. The table has the
executable sections of the linked program, its size after strip, executed instructions of a fixed workload, and CPU time
of the build. Every output must equal that of the first variant, and the programs' own tests must pass. Sources come
from the package index and from Debian (`deb-src` lines in the sources of apt). Required are make, cmake, perl, tclsh,
googletest, valgrind, and for the plugin clang-22 and llvm-22-dev.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from benchmarks.ten_projects import FLAGS, LINK, Project, read_projects
from mlgo_clang.compiler import compiler_command
from mlgo_gym.deploy.c_code import decision_code
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.tasks.metrics import find_counter
from mlgo_gym.tasks.metrics.counters import count_program

PROGRAMS = SOURCES / "programs"


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


class Bench:
    """A configured project.

    Args:
        project: The project.
        options: The command line: folder of all projects, compiler, number of jobs.
    """

    def __init__(self, project: Project, options: argparse.Namespace) -> None:
        self.project, self._options = project, options
        self._folder = options.work / project.name
        self._build, self._cache = self._folder / "build", options.work / "cache"
        self._log = (options.work / f"{project.name}.log").open("ab")
        if not (self._folder / "configured").exists():
            self._prepare(fetch(project.archive, project.sha256, project.get, options.work / "sources"))

    def _prepare(self, source: Path) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        with tarfile.open(source) as archive:
            archive.extractall(self._folder / "unpacked", filter="tar")
        (unpacked,) = (self._folder / "unpacked").iterdir()
        unpacked.rename(self._folder / "source")
        shutil.copytree(PROGRAMS, self._folder / "driver")
        # Configured builds keep the names of their compilers; the level and the policy vary.
        for name in ("BENCH_CC", "BENCH_CXX"):
            script = self._folder / name
            script.write_text(f'#!/bin/sh\nexec ${name} "$@" $BENCH_LEVEL\n')
            script.chmod(0o755)
        self._build.mkdir()
        self._run(self.project.configure, VARIANTS["Oz"])
        (self._folder / "configured").touch()

    def environment(self, variant: Variant, search: int = 0) -> Mapping[str, str]:
        """Return the environment variables of a variant."""
        commands = [[*compiler_command(self._options.clang, mode)] for mode in ("gcc", "g++")]
        extra = {}
        if variant.plugin:
            plugin = self._options.work / f"{variant.plugin}.so"
            commands = [[*command, f"-fpass-plugin={plugin}"] for command in commands]
        elif variant.policy:
            scripts = Path(sys.executable).parent
            commands = [[str(scripts / "mlgo-clang")], [str(scripts / "mlgo-clang++")]]
            extra = {"MLGO_POLICY": variant.policy, "MLGO_CLANG": self._options.clang}
        if variant.compiles:
            folder = self._folder / f"recipes-{variant.level}-{variant.compiles}"
            extra |= {"MLGO_RECIPES": str(folder), "MLGO_SEARCH": str(search)}
        cc, cxx = map(shlex.join, commands)
        variables = {
            "BENCH_CC": cc,
            "BENCH_CXX": cxx,
            "BENCH_LEVEL": f"-{variant.level}",
            "CC": str(self._folder / "BENCH_CC"),
            "CXX": str(self._folder / "BENCH_CXX"),
            "FLAGS": FLAGS,
            "LINK": LINK,
            "JOBS": str(self._options.jobs),
            "MLGO_CACHE": str(self._cache),
        }
        return {**os.environ, **variables, **extra}

    def _run(self, command: str, variant: Variant, search: int = 0, *, check: bool = True) -> tuple[int, float]:
        """Run a shell command in the build folder; return its exit status and its CPU seconds."""
        start = cpu_seconds()
        environment, log = self.environment(variant, search), self._log
        words = ["bash", "-ec", command]
        done = subprocess.run(
            words, cwd=self._build, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
        )
        if check and done.returncode:
            raise SystemExit(f"{self.project.name}: {command[:80]!r} failed; {log.name} has its output")
        return done.returncode, cpu_seconds() - start

    def make(self, variant: Variant, search: int = 0) -> float:
        """Clean and build; return the CPU seconds of the build."""
        self._run(self.project.clean, variant)
        (self._build / self.project.program).unlink(missing_ok=True)
        return self._run(self.project.build, variant, search)[1]

    def measure(self, variant: Variant) -> tuple[dict[str, Any], list[str]]:
        """Build in a variant; return sizes, instructions, CPU seconds and tests, and the digest of each output."""
        found: dict[str, Any] = {"search_seconds": self.make(variant, variant.compiles) if variant.compiles else None}
        found["seconds"] = [self.make(variant) for _ in range(self._options.rounds)]
        program = self._build / self.project.program
        with tempfile.TemporaryDirectory() as scratch:
            stripped = Path(scratch) / "program"
            subprocess.run(["strip", "-o", stripped, program], check=True)
            found |= {"text": object_sizes(program.read_bytes()).text, "file": stripped.stat().st_size}
        found["instructions"], digests = self._count(program)
        has_tests = self.project.tests and not self._options.no_tests
        found["tests"] = self._run(self.project.tests, variant, check=False)[0] == 0 if has_tests else None
        return found, digests

    def _count(self, program: Path) -> tuple[int, list[str]]:
        """Return the executed instructions of all runs, and the digest of each output."""
        instructions, digests = 0, []
        for run in self.project.runs:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                for file in self.project.files:
                    shutil.copyfile(PROGRAMS / file, folder / file)
                (folder / "input").write_text(self.project.input(self._folder / "source"), encoding="utf-8")
                found = count_program([str(program), *shlex.split(run)], folder, find_counter())
            instructions += found.instructions or 0
            digests.append(hashlib.sha256(found.output).hexdigest())
        return instructions, digests


def measure(projects: Sequence[Project], variants: Mapping[str, Variant], options: argparse.Namespace) -> None:
    """Measure what the results lack, print and write: each variant against the first one."""
    results = read_json(options.output, {})
    columns = {"program": "<10", "variant": "<12", ".text": ">+9.2%", "file": ">+9.2%", "instructions": ">+12.2%"}
    table = Table({**columns, "build": ">7.1f", "tests": "<5"})
    first = next(iter(VARIANTS))
    for project in projects:
        facts = {"archive": project.archive, "trained": project.trained, "clang": options.clang, "variants": {}}
        row = results.setdefault(project.name, facts)
        missing = [name for name in variants if options.again or name not in row["variants"]]
        bench = Bench(project, options) if missing else None
        for name in missing:
            assert bench is not None
            found, digests = bench.measure(variants[name])
            check_outputs(row, f"{project.name}, {name}", digests, is_first=name == first)
            row["variants"][name] = found
            write_json(options.output, results)
        plain = row["variants"].get(first)
        for name, found in row["variants"].items() if plain else ():
            changes = [found[key] / plain[key] - 1 for key in ("text", "file", "instructions")]
            tests = {True: "pass", False: "FAIL", None: "-"}[found["tests"]]
            table.row(project.name, name, *changes, min(found["seconds"]), tests)


def main() -> None:
    """Measure the programs or the cost of their builds."""
    parser = command_line(__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder of the sources and builds")
    parser.add_argument("--only", default="", help="programs, separated by commas (default: all)")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="variants, separated by commas")
    parser.add_argument("--rounds", type=int, default=1, help="timed builds per variant (default: 1)")
    parser.add_argument("--jobs", type=int, default=2, help="concurrent jobs of a build (default: 2)")
    parser.add_argument("--clang", default="clang-22", help="the compiler of all builds; `bundled` loads no plugin")
    parser.add_argument("--llvm-config", default="llvm-config-22", help="the compiler's llvm-config, for plugins")
    parser.add_argument("--no-tests", action="store_true", help="do not run the programs' tests")
    parser.add_argument("--again", action="store_true", help="measure again what the results have")
    parser.add_argument("--output", type=Path, default=RESULTS / "ten_programs.json", help="JSON file of the results")
    options = parser.parse_args()
    options.work = options.work.absolute()
    options.work.mkdir(parents=True, exist_ok=True)
    variants = {name: VARIANTS[name] for name in VARIANTS if name in options.variants.split(",")}
    for policy in {variant.plugin for variant in variants.values()} - {""}:
        plugin = options.work / f"{policy}.so"
        if not plugin.exists():
            build_plugin(decision_code(policy, callee_features=True), installed_llvm(options.llvm_config), plugin)
    projects = [project for project in read_projects() if not options.only or project.name in options.only.split(",")]
    measure(projects, variants, options)


if __name__ == "__main__":
    main()
