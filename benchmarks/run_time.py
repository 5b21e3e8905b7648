"""Size and run time of programs under plain clang and under policies; writes docs/results/run_time.json.

    python -m benchmarks.run_time                    # all programs; a build with a result does not run again
    python -m benchmarks.run_time --only lua,cmark   # these programs
    python -m benchmarks.run_time --rounds 0         # no wall times, for a machine with other work

Each program is linked once per build, checked by its output, and counted. Wall time is the median over rounds in which
the builds take turns.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from benchmarks.measuring import RESULTS, command_line, read_json, write_json
from mlgo_gym.episode.metrics.counters import find_counter, run_program
from mlgo_gym.episode.metrics.programs import Program, link_program, measure_program, modules_of, read_programs
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.linking import PolicyObjects
from mlgo_gym.evaluation.runner import PLAIN, EvaluatedPolicies, RunnerSettings

CORPORA = ("programs", "builtin")

POLICIES = {"O2": (), "Os": ("threshold:5", "last-call"), "Oz": ("threshold:5", "last-call")}
"""Policies by optimisation level; plain clang is measured at each."""


class PolicyBuilds:
    """Objects of the programs of a corpus, by plain clang and by policies of inlining.

    Args:
        corpus: Name of the corpus.
        policies: The policies.
        resources: Closes the environment and removes the folders.
    """

    def __init__(self, corpus: str, policies: Sequence[str], resources: ExitStack) -> None:
        settings = RunnerSettings("mlgo/Inline-v0", corpus, policies={name: name for name in policies})
        evaluated = resources.enter_context(closing(EvaluatedPolicies(settings)))
        self.env = evaluated.env
        assert self.env.corpus.path is not None
        self.path = self.env.corpus.path
        self.objects = {
            name: PolicyObjects(evaluated, name, Path(resources.enter_context(tempfile.TemporaryDirectory())))
            for name in (PLAIN, *policies)
        }

    def files(self, program: Program, policy: str) -> dict[str, Path]:
        """Return the objects of a program by module, which are compiled if they are missing."""
        return {module: self.objects[policy].file(module) for module in modules_of(program, self.path)}


def measure(program: Program, builds: Mapping[str, PolicyBuilds], known: dict[str, Any], rounds: int) -> dict[str, Any]:
    """Return the result of a program from its builds by level, with a record by build.

    Known builds stay, and those without a time get one in a number of rounds, in which they take turns.
    """
    counter, path, toolchain = find_counter(), builds["Oz"].path, builds["Oz"].env.toolchain
    records: dict[str, dict[str, Any]] = dict(known.get("builds", {}))
    with tempfile.TemporaryDirectory() as scratch:
        executables: dict[str, Path] = {}
        for level, policy in ((level, policy) for level, of_level in builds.items() for policy in of_level.objects):
            name = build_name(level, policy)
            is_known = name in records
            if is_known and (not rounds or ("time_ratio" in records[name] and name != "Oz")):
                continue
            executable = executables[name] = Path(scratch, f"build-{len(executables)}")
            files = builds[level].files(program, policy)
            link_program(program, path, files, executable, toolchain)
            if is_known:
                continue
            found = measure_program(program, path, files, executable, counter)
            records[name] = {"size": found.size, "instructions": found.instructions, "memory": found.memory}
        turns = [
            {name: wall_time(program, path, executable) for name, executable in executables.items()}
            for _ in range(rounds)
        ]
    for name, record in ((name, records[name]) for name in executables if turns):
        record["seconds"] = round(statistics.median(times[name] for times in turns), 6)
        record["time_ratio"] = round(statistics.median(times[name] / times["Oz"] for times in turns), 4)
    return {**known, "counter": counter, "held_out": program.held_out, "builds": records}


def build_name(level: str, policy: str) -> str:
    """Return the name of a build in the results."""
    return level if policy == PLAIN else f"{level} {policy}"


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
    parser.add_argument("--rounds", type=int, default=11, help="runs of each build for wall times (default: 11)")
    options = parser.parse_args()
    required = ("instructions", "time_ratio")[: 1 + bool(options.rounds)]
    names = [build_name(level, policy) for level, policies in POLICIES.items() for policy in (PLAIN, *policies)]
    only = set(filter(None, options.only.split(",")))
    results = read_json(options.output, {"programs": {}})
    failed = 0
    for corpus in CORPORA:
        with ExitStack() as resources:
            builds = {
                level: PolicyBuilds(f"{corpus}@{level}", policies, resources) for level, policies in POLICIES.items()
            }
            for program in read_programs(builds["Oz"].env.corpus):
                known = results["programs"].get(program.name, {})
                records = [known.get("builds", {}).get(name, {}) for name in names]
                if all(key in record for record in records for key in required) or (only and program.name not in only):
                    continue
                try:
                    found = measure(program, builds, known, options.rounds)
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
