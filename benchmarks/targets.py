"""Size of held-out projects on each target under policies, objects and linked; writes docs/results/targets.json.

    python -m benchmarks.targets                                  # all; a result in the file is not measured again
    python -m benchmarks.targets --targets thumbv7em --levels Oz --largest 200 --search 12

The modules are those of the held-out programs of the corpus `programs`: no policy was trained on their projects. The
program marisa is excluded, because opencc, which was in training, contains another version of its library. Each module
is compiled once per policy, the smallest programs first. The linked size is that of the modules' functions in
the program. If `wasm-opt` is installed, it shrinks each linked WebAssembly program, with its C library, by `-Oz`.

`--search` searches small modules by 50 compiles each: of each program the smallest ones with 20 decisions or more.
"""

from __future__ import annotations

import itertools
import json
import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.measuring import Table, command_line, write_json
from benchmarks.reference_table import facts_of
from mlgo_clang.advisors import WITHOUT_SIZE_LIMIT
from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.corpus.targets import TARGETS
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.compiled_objects import PLAIN, PolicyObjects
from mlgo_gym.evaluation.evaluated_policies import EvaluatedPolicies, RunnerSettings
from mlgo_gym.evaluation.statistics import Change
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.wasm_file import without_custom_sections
from mlgo_gym.policies.model_files import bundled_policies
from mlgo_gym.search import search_module
from mlgo_gym.tasks.metrics import Program, link_program, read_programs
from mlgo_gym.tasks.metrics.program_run import linked_size, modules_of

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "targets.json"

UNLIMITED = "unlimited:"
"""Prefix of a policy that decides without the size limit of clang's advisor."""

NO_LIMIT: dict[str, Any] = {"compile_options": {"extra_flags": ("-mllvm", WITHOUT_SIZE_LIMIT)}}
"""Arguments of the environment for such a policy."""

SMALLER = "smaller:"
"""Prefix of a policy whose object counts if it is not larger than plain clang's, as in a list of `mlgo-clang`."""

POLICIES = {
    level: (
        *("default", "threshold:0", "threshold:5", f"inline-{level.lower()}-fast", f"inline-{level.lower()}"),
        f"{UNLIMITED}inline-{level.lower()}",
        f"{SMALLER}{UNLIMITED}inline-{level.lower()}",
    )
    for level in ("Oz", "Os")
}
"""Policies by optimisation level; plain clang is the baseline."""

IN_TRAINING = {"marisa"}
"""Programs with a library of which another version was in training, as a part of opencc."""

COMPILES = 50
"""Compiles of a search per module."""

_LEAST_DECISIONS = 20
_PER_PROGRAM = 2
"""Searched modules per program."""


class SmallerObjects:
    """The smaller object of each module of two builds; of equal sizes the second one's."""

    def __init__(self, first: PolicyObjects, second: PolicyObjects) -> None:
        self._both = second, first

    def file(self, name: str) -> Path:
        """Return the path of a module's object."""
        return min(
            (objects.file(name) for objects in self._both), key=lambda path: object_sizes(path.read_bytes()).text
        )


Builds = dict[str, tuple[EvaluatedPolicies, PolicyObjects | SmallerObjects]]


def policies_of(target: str, level: str) -> tuple[str, ...]:
    """Return `POLICIES` of a level, and the bundled policy that was trained on a target if there is one."""
    own = f"inline-{level.lower()}-{target}"
    return (*POLICIES[level], own) if own in bundled_policies() else POLICIES[level]


def open_builds(corpus: str, policies: tuple[str, ...], resources: ExitStack) -> Builds:
    """Return the environment and the objects of plain clang and of each policy."""
    compiled = [name for name in policies if not name.startswith(SMALLER)]
    unlimited = [name for name in compiled if name.startswith(UNLIMITED)]
    groups: tuple[tuple[list[str], dict[str, Any]], ...] = (
        ([PLAIN, *(name for name in compiled if name not in unlimited)], {}),
        (unlimited, NO_LIMIT),
    )
    found: dict[str, tuple[EvaluatedPolicies, PolicyObjects]] = {}
    for names, arguments in groups:
        chosen = {name: name.removeprefix(UNLIMITED) for name in names if name != PLAIN}
        evaluated = EvaluatedPolicies(RunnerSettings("mlgo/Inline-v0", corpus, arguments, policies=chosen))
        resources.callback(evaluated.close)
        for name in names:
            folder = Path(resources.enter_context(tempfile.TemporaryDirectory()))
            found[name] = evaluated, PolicyObjects(evaluated, name, folder)
    smaller: Builds = {
        name: (found[PLAIN][0], SmallerObjects(found[PLAIN][1], found[name.removeprefix(SMALLER)][1]))
        for name in policies
        if name.startswith(SMALLER)
    }
    return {**found, **smaller}


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
                if executable.read_bytes().startswith(b"\0asm") and shutil.which("wasm-opt"):
                    found[name]["files"] = optimized_sizes(executable)
            except MlgoError as error:
                found[name]["error"] = str(error).splitlines()[0][:300]
    return found


def optimized_sizes(executable: Path) -> list[int]:
    """Return the bytes of code of a WebAssembly program, and those after `wasm-opt -Oz`."""
    stripped, smaller = executable.with_suffix(".stripped"), executable.with_suffix(".smaller")
    # Debugging information stops older versions of wasm-opt.
    stripped.write_bytes(without_custom_sections(executable.read_bytes()))
    command = ["wasm-opt", "-Oz", "--all-features", str(stripped), "-o", str(smaller)]
    answer = run_bounded(command, writable=None, timeout=300, name="wasm-opt")
    if answer.returncode != 0:
        raise MlgoError(f"expected wasm-opt to succeed, got: {answer.stderr.strip()[-300:]}")
    return [object_sizes(path.read_bytes()).text for path in (executable, smaller)]


def search(builds: Builds, programs: Mapping[str, Any], count: int, found: dict[str, Any]) -> Iterator[None]:
    """Search small modules of measured programs; write bytes before and after into `found`, and yield after each."""
    env = builds[PLAIN][0].env
    chosen: list[str] = []
    for measured in programs.values():
        modules = sorted(measured[PLAIN].get("objects", {}), key=lambda name: (env.corpus.size(name), name))
        large = [
            name for name in modules if sum(env.setup.decisions(env.corpus.module(name)).values()) >= _LEAST_DECISIONS
        ]
        chosen += large[:_PER_PROGRAM]
    for name in sorted(chosen, key=lambda name: (env.corpus.size(name), name))[:count]:
        if name not in found:
            result = search_module(env, env.corpus.module(name), "bundles", compiles=COMPILES)
            found[name] = [result.cost_after(COMPILES), result.baseline]
            yield


def changes(programs: Mapping[str, Mapping[str, Any]], policy: str) -> dict[str, Any]:
    """Return the statistics of a policy against plain clang: over objects, and over linked programs.

    For WebAssembly they are also over the code of whole programs, before and after `wasm-opt`.
    """
    objects: list[tuple[tuple[float, float], str]] = []
    linked: list[tuple[float, float]] = []
    files: list[tuple[list[int], list[int]]] = []
    for name, builds in programs.items():
        plain, other = builds[PLAIN], builds.get(policy, {})
        for module, size in plain.get("objects", {}).items():
            if module in other.get("objects", {}):
                objects.append(((other["objects"][module], size), name))
        if "linked" in plain and "linked" in other:
            linked.append((other["linked"], plain["linked"]))
        if "files" in plain and "files" in other:
            files.append((other["files"], plain["files"]))
    pairs, clusters = tuple(pair for pair, _ in objects), tuple(name for _, name in objects)
    found = {"objects": facts_of(Change(pairs, clusters)), "linked": facts_of(Change(tuple(linked)))}
    for index, name in enumerate(("file", "wasm-opt")) if files else ():
        found[name] = facts_of(Change(tuple((after[index], before[index]) for after, before in files)))
    return found


def smallest(programs: Mapping[str, Mapping[str, Any]], policies: tuple[str, ...]) -> dict[str, Any]:
    """Return the statistics of the smallest object of plain clang, `threshold:0` and the bundled policies.

    `mlgo-clang` keeps this object if `--mlgo-policy` has a list of them.
    """
    listed = (PLAIN, *(name for name in policies if name == "threshold:0" or name.startswith("inline-")))
    pairs, clusters = [], []
    for program, builds in programs.items():
        for module, size in builds[PLAIN].get("objects", {}).items():
            sizes = [builds[name]["objects"].get(module, size) for name in listed if "objects" in builds.get(name, {})]
            pairs.append((min(sizes), size))
            clusters.append(program)
    return {"objects": facts_of(Change(tuple(pairs), tuple(clusters)))}


def main() -> None:
    """Measure the programs that the results lack, and print a line per target, level and policy."""
    parser = command_line(__doc__)
    parser.add_argument("--targets", default=",".join(TARGETS), help="targets, with commas between (default: all)")
    parser.add_argument("--levels", default=",".join(POLICIES), help="levels, with commas between (default: all)")
    parser.add_argument("--largest", type=int, help="KiB of bitcode of the largest program (default: unlimited)")
    parser.add_argument("--search", type=int, default=0, help="number of modules to search (default: 0)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="path of the results")
    options = parser.parse_args()
    empty: dict[str, Any] = {"runs": {}, "searches": {}, "changes": {}}
    results: dict[str, Any] = json.loads(options.output.read_text()) if options.output.exists() else empty
    titles = {"target": "<14", "level": "<5", "policy": "<15", "modules": ">7", "mean": ">8.2%", "total": ">8.2%"}
    table = Table({**titles, "larger": ">6", "linked": ">8.2%", "larger files": ">12"})
    for target, level in itertools.product(options.targets.split(","), options.levels.split(",")):
        key = f"{target} {level}"
        programs = results["runs"].setdefault(key, {})
        policies = policies_of(target, level)
        with ExitStack() as resources:
            builds = open_builds(f"programs@{level}@{target}", policies, resources)
            for program in held_out_programs(builds, options.largest):
                found = programs.setdefault(program.name, {})
                if missing := {name: build for name, build in builds.items() if name not in found}:
                    found.update(measure(program, missing))
                    write_json(options.output, results)
            for _ in search(builds, programs, options.search, results["searches"].setdefault(key, {})):
                write_json(options.output, results)
        for policy in policies:
            found = results["changes"][f"{key} {policy}"] = changes(programs, policy)
            objects, linked = found["objects"], found["linked"]
            cells = (objects["modules"], objects["mean"], objects["total"], objects["worse"])
            table.row(target, level, policy, *cells, linked["mean"], linked["worse"])
        more = {"smallest": smallest(programs, policies)}
        if searched := results["searches"][key]:
            pairs = tuple((after, before) for after, before in searched.values())
            more["search"] = {"objects": facts_of(Change(pairs))}
        for name, found in more.items():
            results["changes"][f"{key} {name}"], objects = found, found["objects"]
            cells = (objects["modules"], objects["mean"], objects["total"], objects["worse"])
            table.row(target, level, name, *cells, math.nan, 0)
        write_json(options.output, results)


def held_out_programs(builds: Builds, largest: int | None) -> list[Program]:
    """Return the held-out programs with at most so much bitcode in KiB, the smallest first."""
    corpus = builds[PLAIN][0].env.corpus
    assert corpus.path is not None
    held_out = [each for each in read_programs(corpus) if each.held_out and each.name not in IN_TRAINING]
    sizes = [(sum(map(corpus.size, modules_of(program, corpus.path))), program) for program in held_out]
    kept = [each for each in sizes if largest is None or each[0] <= largest * 1024]
    return [program for _, program in sorted(kept, key=lambda each: (each[0], each[1].name))]


if __name__ == "__main__":
    main()
