"""Size and run time of programs under plain clang and under policies; writes docs/results/run_time.json.

    python -m benchmarks.run_time                    # all programs; a program with a result does not run again
    python -m benchmarks.run_time --only lua,cmark   # these programs

Each program is linked once per build, checked by its output, and counted. The build `Oz` is counted three times, and
the result says whether the counts are equal. Wall time is the median over rounds in which all builds take turns.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.measuring import RESULTS, command_line, read_json, write_json
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.compiled_objects import PLAIN, PolicyObjects
from mlgo_gym.evaluation.evaluated_policies import EvaluatedPolicies, RunnerSettings
from mlgo_gym.tasks.metrics import Program, find_counter, link_program, measure_program, read_programs
from mlgo_gym.tasks.metrics.counters import run_program
from mlgo_gym.tasks.metrics.programs import modules_of

CORPORA = ("programs", "builtin")

POLICIES = {
    "O2": (),
    "Os": ("threshold:5", "inline-os"),
    "Oz": ("inline-oz",),
}
"""Policies by optimisation level; plain clang is measured at each."""

ROUNDS = 11


class Builds:
    """All builds of the programs of a corpus."""

    def __init__(self, corpus: str, resources: ExitStack) -> None:
        self.objects: dict[str, PolicyObjects] = {}
        for level, policies in POLICIES.items():
            settings = RunnerSettings("mlgo/Inline-v0", f"{corpus}@{level}", policies={name: name for name in policies})
            evaluated = EvaluatedPolicies(settings)
            resources.callback(evaluated.close)
            for policy in (PLAIN, *policies):
                folder = Path(resources.enter_context(tempfile.TemporaryDirectory()))
                name = level if policy == PLAIN else f"{level} {policy}"
                self.objects[name] = PolicyObjects(evaluated, policy, folder)
        self.corpus, self.toolchain = evaluated.env.corpus, evaluated.env.toolchain

    def measure(self, program: Program) -> dict[str, Any]:
        """Return the result of a program: a record by build, and facts about the counts."""
        counter, path = find_counter(), self.corpus.path
        assert path is not None
        records: dict[str, dict[str, Any]] = {}
        facts: dict[str, Any] = {"counter": counter, "held_out": program.held_out}
        with tempfile.TemporaryDirectory() as scratch:
            executables = {name: Path(scratch, f"build-{number}") for number, name in enumerate(self.objects)}
            for name, executable in executables.items():
                files = {module: self.objects[name].file(module) for module in modules_of(program, path)}
                link_program(program, path, files, executable, self.toolchain)
                started = time.perf_counter()
                found = measure_program(program, path, files, executable, counter)
                seconds = time.perf_counter() - started
                records[name] = {"size": found.size, "instructions": found.instructions, "memory": found.memory}
                if name == "Oz":
                    again = {measure_program(program, path, files, executable, counter).instructions for _ in range(2)}
                    facts["equal_counts"] = again == {found.instructions}
                    facts["counting"] = round(seconds / max(found.seconds, 1e-9), 1)
                    facts["modules"] = len(files)
            times: dict[str, list[float]] = {name: [] for name in executables}
            for _ in range(ROUNDS):
                for name, executable in executables.items():
                    times[name].append(wall_time(program, path, executable))
        for name, values in times.items():
            ratios = [value / base for value, base in zip(values, times["Oz"], strict=True)]
            records[name]["seconds"] = round(statistics.median(values), 6)
            records[name]["time_ratio"] = round(statistics.median(ratios), 4)
        return {**facts, "builds": records}


def wall_time(program: Program, corpus: Path, executable: Path) -> float:
    """Return the wall time of all runs of a program in seconds."""
    seconds = 0.0
    for run in program.runs:
        with tempfile.TemporaryDirectory() as folder:
            for file in run.files:
                Path(folder, Path(file).name).write_bytes((corpus / file).read_bytes())
            seconds += run_program([str(executable), *run.arguments], Path(folder)).seconds
    return seconds


def main() -> None:
    """Measure the programs that the results lack, and print size and instructions against plain clang at -Oz."""
    parser = command_line(__doc__)
    parser.add_argument("--only", default="", help="programs, separated by commas (default: all)")
    parser.add_argument("--output", type=Path, default=RESULTS / "run_time.json", help="path of the results")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    results = read_json(options.output, {"programs": {}})
    failed = 0
    for corpus in CORPORA:
        with ExitStack() as resources:
            builds = Builds(corpus, resources)
            for program in read_programs(builds.corpus):
                if program.name in results["programs"] or (only and program.name not in only):
                    continue
                try:
                    found = builds.measure(program)
                except MlgoError as error:
                    failed += 1
                    print(f"{program.name}: {error}", flush=True)
                    continue
                results["programs"][program.name] = {"corpus": corpus, **found}
                write_json(options.output, results)
                base = found["builds"]["Oz"]
                for name, row in found["builds"].items():
                    changes = [f"{row[key] / base[key] - 1:+.1%}" for key in ("size", "instructions")]
                    print(program.name, name, *changes, flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
