"""Size of held-out projects on each target under policies, objects and linked; writes docs/results/targets.json.

    python -m benchmarks.targets                                  # all; a program with a result is not compiled again
    python -m benchmarks.targets --targets thumbv7em --levels Oz

The modules are those of the held-out programs of the corpus `programs`: no policy was trained on their projects. Each
module is compiled once per policy. The linked size is that of the modules' functions in the program.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.measuring import Table, command_line, write_json
from benchmarks.reference_table import facts_of
from mlgo_gym.corpus.commands.targets import TARGETS
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.compiled_objects import PLAIN, PolicyObjects
from mlgo_gym.evaluation.evaluated_policies import EvaluatedPolicies, RunnerSettings
from mlgo_gym.evaluation.summary import Change
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.programs import Program, link_program, read_programs
from mlgo_gym.programs.measurement import linked_size, modules_of

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "targets.json"

POLICIES = {
    "Oz": ("default", "threshold:0", "inline-oz-fast", "inline-oz"),
    "Os": ("default", "threshold:5", "inline-os-fast", "inline-os"),
}
"""Policies by optimisation level; plain clang is the baseline."""


Builds = dict[str, tuple[EvaluatedPolicies, PolicyObjects]]


def open_builds(corpus: str, policies: tuple[str, ...], resources: ExitStack) -> Builds:
    """Return the environment and the objects of plain clang and of each policy."""
    settings = RunnerSettings("mlgo/Inline-v0", corpus, policies={name: name for name in policies})
    evaluated = EvaluatedPolicies(settings)
    resources.callback(evaluated.close)
    folders = {name: Path(resources.enter_context(tempfile.TemporaryDirectory())) for name in (PLAIN, *policies)}
    return {name: (evaluated, PolicyObjects(evaluated, name, folder)) for name, folder in folders.items()}


def measure(program: Program, builds: Builds) -> dict[str, Any]:
    """Return the size of each object with a decision and of the linked file by build, or the error of a build."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, (evaluated, objects) in builds.items():
            env, executable = evaluated.env, Path(scratch) / "program"
            assert env.corpus.path is not None
            found[name] = {}
            try:
                files = {module: objects.file(module) for module in modules_of(program, env.corpus.path)}
                found[name]["objects"] = {
                    module: object_sizes(file.read_bytes()).text
                    for module, file in files.items()
                    if sum(env.setup.decisions(env.corpus.module(module)).values())
                }
                link_program(program, env.corpus.path, files, executable, env.toolchain)
                found[name]["linked"] = linked_size(files, executable)
            except MlgoError as error:
                found[name]["error"] = str(error).splitlines()[0][:300]
    return found


def changes(programs: Mapping[str, Mapping[str, Any]], policy: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the statistics of a policy against plain clang: over objects, and over linked programs."""
    objects: list[tuple[tuple[float, float], str]] = []
    linked: list[tuple[float, float]] = []
    for name, builds in programs.items():
        plain, other = builds[PLAIN], builds[policy]
        for module, size in plain.get("objects", {}).items():
            if module in other.get("objects", {}):
                objects.append(((other["objects"][module], size), name))
        if "linked" in plain and "linked" in other:
            linked.append((other["linked"], plain["linked"]))
    pairs, clusters = tuple(pair for pair, _ in objects), tuple(name for _, name in objects)
    return facts_of(Change(pairs, clusters)), facts_of(Change(tuple(linked)))


def main() -> None:
    """Measure the programs that the results lack, and print a line per target, level and policy."""
    parser = command_line(__doc__)
    parser.add_argument("--targets", default=",".join(TARGETS), help="targets, with commas between (default: all)")
    parser.add_argument("--levels", default=",".join(POLICIES), help="levels, with commas between (default: all)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="path of the results")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.output.read_text()) if options.output.exists() else {"runs": {}}
    titles = {"target": "<14", "level": "<5", "policy": "<15", "modules": ">7", "mean": ">8.2%", "total": ">8.2%"}
    table = Table({**titles, "larger": ">6", "linked": ">8.2%", "larger files": ">12"})
    for target, level in itertools.product(options.targets.split(","), options.levels.split(",")):
        programs = results["runs"].setdefault(f"{target} {level}", {})
        with ExitStack() as resources:
            builds = open_builds(f"programs@{level}@{target}", POLICIES[level], resources)
            for program in read_programs(builds[PLAIN][0].env.corpus):
                if program.held_out and program.name not in programs:
                    programs[program.name] = measure(program, builds)
                    write_json(options.output, results)
        for policy in POLICIES[level]:
            objects, linked = changes(programs, policy)
            results.setdefault("changes", {})[f"{target} {level} {policy}"] = {"objects": objects, "linked": linked}
            cells = (objects["modules"], objects["mean"], objects["total"], objects["worse"])
            table.row(target, level, policy, *cells, linked["mean"], linked["worse"])
        write_json(options.output, results)


if __name__ == "__main__":
    main()
