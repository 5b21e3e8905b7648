"""Ten programs that everybody knows, built by plain clang, a plugin and the wrapper: sizes and costs.

    python -m benchmarks.ten_programs --work runs/ten                   # all; the same command resumes
    python -m benchmarks.ten_programs --work runs/ten --only Lua curl --variants Oz plugin --again

Each program is built by its own commands (benchmarks/sources/programs/projects.toml) in each variant. The results have
the executable sections of the linked program, its size after strip, executed instructions of a fixed workload, and CPU
time of the build. Every output must equal that of the first variant, and the programs' own tests must pass. Sources
come from the package index and from Debian (`deb-src` lines in the sources of apt). Required are make, cmake, perl,
tclsh, googletest, valgrind, and for the plugin clang-22 and llvm-22-dev.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.builds import FIRST, Sources, Variant, count_run, measure_missing, options_of, read_sources
from benchmarks.measuring import SOURCES, cpu_seconds
from mlgo_clang.compiler import compiler_command
from mlgo_gym.deploy.c_code import decision_code
from mlgo_gym.deploy.plugin import build_plugin, installed_llvm
from mlgo_gym.llvm.sizes import object_sizes

PROGRAMS = SOURCES / "programs"
FLAGS = {"FLAGS": "-w -DNDEBUG -ffunction-sections -fdata-sections", "LINK": "-Wl,--gc-sections"}
LONGEST_INPUT = 200_000

VARIANTS = {
    FIRST: Variant("Oz"),
    "O2": Variant("O2"),
    "plugin": Variant("Oz", plugin="inline-oz"),
    "wrapper": Variant("Oz", "inline-oz"),
    "last-call": Variant("Oz", "last-call"),
    "Os wrapper": Variant("Os", "inline-os"),
}


@dataclass(frozen=True)
class Project(Sources):
    """A program with its build.

    Attributes:
        build: Builds the program, after `clean`.
        program: The linked program, a path in the build folder.
        runs: Arguments of each run of the workload.
        trained: Name of the dataset with code of the same project, on which bundled policies were trained; or empty.
        configure: Prepares the build with plain clang, once.
        clean: Removes the objects and the program.
        tests: Runs the project's own tests; empty if it has none here.
        files: Files of benchmarks/sources/programs that each run finds in its folder.
        input_file: File of the sources that is the file `input` of each run.
    """

    build: str
    program: str
    runs: tuple[str, ...]
    trained: str = ""
    configure: str = "true"
    clean: str = "rm -rf o"
    tests: str = ""
    files: tuple[str, ...] = ()
    input_file: str = ""

    def input(self, source: Path) -> str:
        """Return the content of the file `input` of the runs; empty without one."""
        if self.input_file:
            return (source / self.input_file).read_text(encoding="utf-8", errors="replace")[:LONGEST_INPUT]
        return _yaml() if self.name == "yaml-cpp" else _curl(source) if self.name == "curl" else ""


def _yaml() -> str:
    """Return a document of YAML."""
    words = [sys.executable, str(PROGRAMS / "yaml_input.py")]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def _curl(source: Path) -> str:
    """Return a configuration of curl that reads a file by many addresses."""
    url = f'url = "file://{source}/include/../include/./curl/stdcheaders.h"'
    lines = [f'{url}\nheader = "X-Number: {i}"\nuser-agent = "agent/{i}"' for i in range(300)]
    return "\n".join(["silent", *lines]) + "\n"


class Bench:
    """A configured project.

    Args:
        project: The project.
        options: The command line: folder of all projects, compiler, number of jobs.
    """

    def __init__(self, project: Project, options: argparse.Namespace) -> None:
        self.project, self._options = project, options
        self._folder = options.work / project.name
        self._build, self._source = self._folder / "build", self._folder / "source"
        self._log = (options.work / f"{project.name}.log").open("ab")
        if not (self._folder / "configured").exists():
            self._prepare()

    def _prepare(self) -> None:
        self.project.unpack(self._options.work / "sources", self._source)
        shutil.copytree(PROGRAMS, self._folder / "driver")
        # Configured builds keep the names of their compilers; the level and the policy vary.
        for name in ("BENCH_CC", "BENCH_CXX"):
            script = self._folder / name
            script.write_text(f'#!/bin/sh\nexec ${name} "$@" $BENCH_LEVEL\n')
            script.chmod(0o755)
        self._build.mkdir()
        self._run(self.project.configure, VARIANTS[FIRST])
        (self._folder / "configured").touch()

    def environment(self, variant: Variant) -> Mapping[str, str]:
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
        names = {name: str(self._folder / f"BENCH_{name}") for name in ("CC", "CXX")}
        names |= dict(zip(("BENCH_CC", "BENCH_CXX"), map(shlex.join, commands), strict=True))
        level, cache = f"-{variant.level}", str(self._options.work / "cache")
        others = {"BENCH_LEVEL": level, "JOBS": str(self._options.jobs), "MLGO_CACHE": cache}
        return {**os.environ, **names, **FLAGS, **others, **extra}

    def _run(self, command: str, variant: Variant, *, check: bool = True) -> tuple[int, float]:
        """Run a shell command in the build folder; return its exit status and its CPU seconds."""
        start = cpu_seconds()
        variables, log, null = self.environment(variant), self._log, subprocess.DEVNULL
        words = ["bash", "-ec", command]
        done = subprocess.run(words, cwd=self._build, env=variables, stdin=null, stdout=log, stderr=log, check=False)
        if check and done.returncode:
            raise SystemExit(f"{self.project.name}: {command[:80]!r} failed; {log.name} has its output")
        return done.returncode, cpu_seconds() - start

    def make(self, variant: Variant) -> float:
        """Clean and build; return the CPU seconds of the build."""
        self._run(self.project.clean, variant)
        (self._build / self.project.program).unlink(missing_ok=True)
        return self._run(self.project.build, variant)[1]

    def measure(self, variant: str) -> tuple[dict[str, Any], list[str]]:
        """Build in a variant; return sizes, instructions, CPU seconds and tests, and the digest of each output."""
        settings, project = VARIANTS[variant], self.project
        found: dict[str, Any] = {"seconds": self.make(settings)}
        program = self._build / project.program
        found["text"] = object_sizes(program.read_bytes()).text
        counts = []
        with tempfile.TemporaryDirectory() as scratch:
            stripped = Path(scratch) / "program"
            subprocess.run(["strip", "-o", stripped, program], check=True)
            found["file"] = stripped.stat().st_size
        for run in project.runs:
            with tempfile.TemporaryDirectory() as scratch:
                for file in project.files:
                    shutil.copyfile(PROGRAMS / file, Path(scratch, file))
                Path(scratch, "input").write_text(project.input(self._source), encoding="utf-8")
                counts.append(count_run(program, run, Path(scratch)))
        found["instructions"] = sum(instructions for instructions, _ in counts)
        found["tests"] = self._run(project.tests, settings, check=False)[0] == 0 if project.tests else None
        return found, [digest for _, digest in counts]


def main() -> None:
    """Build the plugins, and measure the programs."""
    projects = read_sources("programs/projects.toml", Project)
    parser = options_of(__doc__, list(projects), list(VARIANTS), "ten_programs.json")
    parser.add_argument("--clang", default="clang-22", help="the compiler of all builds; `bundled` loads no plugin")
    options = parser.parse_args()
    options.work = options.work.absolute()
    options.work.mkdir(parents=True, exist_ok=True)
    for policy in {VARIANTS[name].plugin for name in options.variants} - {""}:
        plugin = options.work / f"{policy}.so"
        if not plugin.exists():
            llvm = installed_llvm(options.clang.replace("clang", "llvm-config"))
            build_plugin(decision_code(policy, callee_features=True), llvm, plugin)
    facts = {
        name: {"archive": project.archive, "trained": project.trained, "clang": options.clang}
        for name, project in projects.items()
    }
    keys = ("text", "file", "instructions")
    measure_missing(lambda name: Bench(projects[name], options).measure, facts, keys, options)


if __name__ == "__main__":
    main()
