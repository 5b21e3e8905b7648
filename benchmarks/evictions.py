"""Policies and searches of evictions on held-out programs; writes docs/results/evictions.json.

    python -m benchmarks.evictions                    # finished modules and programs are not repeated
    python -m benchmarks.evictions --parts modules    # without the longer searches and executed instructions

Modules: plain clang, clang's own choices by rule (`default`) and the policies compile each module of the held-out
programs, and the price of each function is compared. The searches are of all functions at once
(`mlgo-gym search --algorithm functions`); three compiles are the better of clang and the network for each function.
Longer searches show how much is left, on some of the modules.

The network `docs/results/evictions.safetensors` is one of `mlgo-gym train imitation`; `network` in the results has the
commands, the margins by validation modules, and the training modules.

Programs: each is linked from the objects of plain clang, of each policy and of each search, and cachegrind counts its
instructions and memory accesses. The summary has the rank correlation of the counts with the estimated instructions and
with the spill cost, over all functions that a policy changes.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks.measuring import command_line, write_json
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.allocation_compile import AllocationCompile, run_allocation_compile
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.compiled_objects import PLAIN, PolicyObjects
from mlgo_gym.evaluation.evaluated_policies import EvaluatedPolicies, RunnerSettings
from mlgo_gym.evaluation.intervals import mean_with_interval
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.session_policy import decision_info
from mlgo_gym.programs import Program, link_program, measure_program, read_programs
from mlgo_gym.programs.measurement import modules_of
from mlgo_gym.search import search_module
from mlgo_gym.session.protocol.decision import Decision

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "evictions.json"

ENVIRONMENT, METRIC = "mlgo/RegAllocEvict-v0", "estimated-instructions"

NETWORK = "network"
"""Name of the network in the results."""

POLICIES = ("default", "ratio:1.25", NETWORK)

LEVELS = ("O2", "Os")

SEARCHES = {"best_of_two": (NETWORK, 3), "search_10": (NETWORK, 10), "search_30": (NETWORK, 30)}
"""Searches: the policy that they start from, and their compiles per module."""

SEARCHED = {"best_of_two": None, "search_10": 20, "search_30": 20}
"""Modules per level that are searched; None for all."""

LEAST = 1000
"""Smallest number of counted instructions of a function."""

LARGEST = 400_000
"""Largest bitcode of a module, in bytes."""


def held_out(level: str) -> tuple[CompilerEnv, dict[str, str]]:
    """Return the environment of a level, and the program of each module of the held-out programs."""
    env = make_environment(ENVIRONMENT, {"corpus": f"programs@{level}", "metric": METRIC})
    path = env.corpus.path
    assert path is not None
    programs = [program for program in read_programs(env.corpus) if program.held_out]
    found = {module: program.name for program in programs for module in modules_of(program, path)}
    return env, {name: project for name, project in found.items() if env.corpus.size(name) <= LARGEST}


def compile_by(env: CompilerEnv, policy: Policy, module: str) -> AllocationCompile:
    """Return the compile of a module by a policy."""
    task = env.task

    def choose(decision: Decision, index: int) -> int:
        return int(policy.act(task.observe(decision), decision_info(task, decision, module, index)))

    return run_allocation_compile(env.setup, env.compilation(env.corpus.module(module)), choose)


def compare(
    env: CompilerEnv, policies: Mapping[str, Policy], module: str, record: dict[str, Any]
) -> dict[str, Any] | None:
    """Add the change by policies that a record lacks to the price by plain clang; return None without a decision."""
    plain = measure_baseline(env.compilation(env.corpus.module(module)), env.setup.timeout, optimization_record=True)
    functions = plain.instructions or {}
    record["price"] = price = math.fsum(each.total for each in functions.values())
    for name, policy in policies.items():
        compiled = compile_by(env, policy, module)
        if not compiled.functions or not price:
            return None
        costs = {function: each for function, each in functions.items() if function in compiled.costs}
        relative = [compiled.costs[name] / each.instructions - 1 for name, each in costs.items() if each.instructions]
        record.setdefault("policies", {})[name] = {
            "change": math.fsum(
                (compiled.costs[function] - each.instructions) * each.entries for function, each in costs.items()
            ),
            "worst_function": max(relative, default=0.0),
        }
        record["decisions"] = len(compiled.actions)
    return record


def specifications(network: Path) -> dict[str, str]:
    """Return the policies by their names in the results."""
    return {name: f"mlp:{network}" if name == NETWORK else name for name in POLICIES}


def measure_modules(level: str, network: Path, results: dict[str, Any]) -> Iterator[None]:
    """Measure the modules of a level that the results lack; yield after each."""
    env, modules = held_out(level)
    policies = {name: load_policy(policy, env) for name, policy in specifications(network).items()}
    records = results.setdefault("modules", {}).setdefault(level, {})
    for module, project in modules.items():
        known = records.get(module, {"project": project})
        missing = {name: each for name, each in policies.items() if name not in (known or {}).get("policies", {})}
        if known is not None and missing:
            try:
                records[module] = compare(env, missing, module, known)
            except MlgoError as error:
                print(f"{level} {module}: {error}", file=sys.stderr, flush=True)
                continue
            yield


def measure_search(level: str, name: str, network: Path, results: dict[str, Any]) -> Iterator[None]:
    """Search some modules of a level; yield after each."""
    env, _ = held_out(level)
    known = sorted(module for module, each in results["modules"][level].items() if each is not None)
    records = results.setdefault("searches", {}).setdefault(level, {}).setdefault(name, {})
    start, compiles = SEARCHES[name]
    for module in np.random.default_rng(0).permutation(known)[: SEARCHED[name]].tolist():
        if module not in records:
            try:
                found = search_module(
                    env,
                    env.corpus.module(module),
                    "functions",
                    compiles=compiles,
                    start=specifications(network)[start],
                )
            except MlgoError as error:
                print(f"{level} {module}: {error}", file=sys.stderr, flush=True)
                continue
            # A build keeps plain clang's object unless the search finds a better one.
            records[module] = min(found.cost / found.baseline - 1, 0.0) if found.verified else 0.0
            yield


def measure_programs(network: Path, results: dict[str, Any]) -> Iterator[None]:
    """Count instructions and memory accesses of the builds of each program that the results lack; yield after each."""
    settings = RunnerSettings(ENVIRONMENT, "programs@O2", {"metric": METRIC}, policies=specifications(network))
    records = results.setdefault("programs", {})
    for program in read_programs(open_corpus("programs@O2")):
        record = records.setdefault(program.name, {}) if program.held_out else {}
        missing = [build for build in (*POLICIES, *SEARCHES) if "accesses" not in record.get(build, {})]
        if not (program.held_out and missing):
            continue
        with tempfile.TemporaryDirectory() as scratch, closing(EvaluatedPolicies(settings)) as evaluated:
            try:
                found = {
                    build: count(program, build, evaluated, Path(scratch, str(number)))
                    for number, build in enumerate((PLAIN, *missing))
                }
                functions = {
                    build: changed_functions(evaluated, build, program, found) for build in missing if build in POLICIES
                }
            except MlgoError as error:
                print(f"{program.name}: {error}", file=sys.stderr, flush=True)
                continue
        for build, (counts, memory) in found.items():
            record[build] = {"instructions": sum(counts.values()), "accesses": memory}
            if functions.get(build):
                record[build]["functions"] = functions[build]
        yield


def search(env: CompilerEnv, name: str, start: str, compiles: int, file: Path) -> None:
    """Search a module, and write the object of a better allocation to a file."""
    module = env.corpus.module(name)
    if not env.decisions(module):
        return
    found = search_module(env, module, "functions", compiles=compiles, start=start)
    if found.verified and found.cost < found.baseline:
        remaining = iter(found.actions)
        with env.compilation(module).session(env.task.advisors) as session:
            while (decision := session.wait(env.setup.timeout)) is not None:
                advice = env.task.encode(decision, next(remaining))
                assert advice is not None, "a search takes legal columns"
                session.advise(advice)
            file.write_bytes(session.finish(env.setup.timeout).object_bytes)


def accesses(program: Program, corpus: Path, executable: Path) -> int:
    """Return the number of data reads and writes of all runs of a program, by cachegrind."""
    total = 0
    for run in program.runs:
        with tempfile.TemporaryDirectory() as folder:
            for file in run.files:
                shutil.copyfile(corpus / file, Path(folder, Path(file).name))
            profile = Path(folder, "profile")
            options = ["--tool=cachegrind", "--cache-sim=yes", "--quiet", f"--cachegrind-out-file={profile}"]
            command = ["valgrind", *options, str(executable), *run.arguments]
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            lines = dict(line.partition(": ")[::2] for line in profile.read_text(errors="replace").splitlines())
            counts = dict(zip(lines["events"].split(), map(int, lines["summary"].split()), strict=True))
            total += counts["Dr"] + counts["Dw"]
    return total


def count(program: Program, build: str, evaluated: EvaluatedPolicies, folder: Path) -> tuple[Mapping[str, int], int]:
    """Return the counted instructions of a build by function, those of the C library included, and its accesses."""
    env, path = evaluated.env, evaluated.env.corpus.path
    assert path is not None
    folder.mkdir()
    objects = PolicyObjects(evaluated, PLAIN if build in SEARCHES else build, folder)
    files = {module: objects.file(module) for module in modules_of(program, path)}
    if build in SEARCHES:
        start, compiles = SEARCHES[build]
        for module, file in files.items():
            search(env, module, evaluated.settings.policies[start], compiles, file)
    executable = folder / "program"
    link_program(program, path, files, executable, env.toolchain)
    counts = measure_program(program, path, files, executable, "cachegrind").functions
    return counts, accesses(program, path, executable)


def changed_functions(
    evaluated: EvaluatedPolicies, name: str, program: Program, counts: Mapping[str, tuple[Mapping[str, int], int]]
) -> list[list[float]]:
    """Return the relative changes of each function whose code a policy changes: estimated, spill cost, counted.

    The spill cost is relative to the estimated instructions, because many functions have none.
    """
    env, policy = evaluated.env_of(name), evaluated.policies[name]
    path = env.corpus.path
    assert path is not None
    rows = []
    for module in modules_of(program, path):
        compilation = env.compilation(env.corpus.module(module))
        plain = measure_baseline(compilation, env.setup.timeout, optimization_record=True)
        compiled = compile_by(env, policy, module)
        for function, before in (plain.instructions or {}).items():
            counted = [counts[build][0].get(function, 0) for build in (PLAIN, name)]
            after = compiled.costs.get(function)
            if after is None or after == before.instructions or min(counted) < LEAST or not before.instructions:
                continue
            spills = [env.task.outcome(each, "spill_cost", function) for each in (compiled.measurement, plain)]
            rows.append(
                [
                    round(after / before.instructions - 1, 6),
                    round((spills[0] - spills[1]) / before.instructions, 6),
                    round(counted[1] / counted[0] - 1, 6),
                ]
            )
    return rows


def summary(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes by level and policy, with intervals over programs."""
    found: dict[str, Any] = {}
    for level, records in results.get("modules", {}).items():
        rows = [each for each in records.values() if each is not None]
        projects = tuple(each["project"] for each in rows)
        prices = np.array([each["price"] for each in rows])
        level_summary: dict[str, Any] = {"modules": len(rows), "projects": len(set(projects))}
        for name in POLICIES:
            changes = np.array([each["policies"][name]["change"] for each in rows])
            level_summary[name] = row_of(changes, prices, projects)
        for name, searched in results.get("searches", {}).get(level, {}).items():
            kept = [records[module] for module in searched]
            costs = np.array([each["price"] for each in kept])
            owners = [each["project"] for each in kept]
            level_summary[name] = row_of(np.array(list(searched.values())) * costs, costs, owners)
        found[level] = level_summary
    programs = results.get("programs", {})
    functions = np.array(
        [row for each in programs.values() for name in POLICIES for row in each.get(name, {}).get("functions", ())]
    )
    if len(functions) > 2:
        found["prices"] = {"functions": len(functions)}
        for column, metric in enumerate((METRIC, "spill_cost")):
            moved = functions[:, 2] != 0
            found["prices"][metric] = {
                "correlation": float(spearmanr(functions[:, [column, 2]]).statistic),
                "same_sign": float((np.sign(functions[moved, column]) == np.sign(functions[moved, 2])).mean()),
            }
    for build in (*POLICIES, *SEARCHES):
        for kind in ("instructions", "accesses"):
            counted = [each for each in programs.values() if kind in each.get(build, ()) and kind in each[PLAIN]]
            ratios = [builds[build][kind] / builds[PLAIN][kind] for builds in counted]
            if ratios:
                found.setdefault("programs", {}).setdefault(build, {})[kind] = {
                    "programs": len(ratios),
                    "geometric_mean": math.expm1(float(np.log(ratios).mean())),
                    "interval": interval_of_mean(np.log(ratios), tuple(map(str, range(len(ratios))))),
                    "least": min(ratios) - 1,
                    "largest": max(ratios) - 1,
                }
    return found


def row_of(changes: Any, prices: Any, projects: Sequence[str]) -> dict[str, Any]:
    """Return geometric mean with interval, total, and the shares of modules that are better or worse."""
    relative = changes / prices
    logarithms = np.log1p(relative)
    return {
        "modules": len(relative),
        "geometric_mean": math.expm1(logarithms.mean()),
        "interval": interval_of_mean(logarithms, tuple(projects)),
        "total": float(changes.sum() / prices.sum()),
        "better": int((relative < -1e-9).sum()),
        "worse": int((relative > 1e-9).sum()),
        "worse_by_a_thousandth": int((relative > 1e-3).sum()),
        "largest": float(relative.max()),
    }


def interval_of_mean(logarithms: Any, projects: tuple[str, ...]) -> list[float] | None:
    """Return the ends of the interval of a geometric mean; None for a single value."""
    interval = mean_with_interval(logarithms, projects).interval
    return None if interval is None else [math.expm1(end) for end in interval]


def main() -> None:
    """Measure what the results lack, and print the summary."""
    parser = command_line(__doc__)
    parser.add_argument("--network", type=Path, default=RESULTS.with_suffix(".safetensors"), help="file of the network")
    parser.add_argument("--parts", default="modules,searches,programs", help="modules, searches, programs")
    parser.add_argument("--output", type=Path, default=RESULTS, help="path of the results")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.output.read_text()) if options.output.exists() else {}
    parts, network = options.parts.split(","), options.network
    work = [measure_modules(level, network, results) for level in LEVELS if "modules" in parts]
    for name, number in SEARCHED.items():
        if ("modules" if number is None else "searches") in parts:
            work += [measure_search(level, name, network, results) for level in LEVELS]
    if "programs" in parts:
        work.append(measure_programs(network, results))
    for part in work:
        for _ in part:
            results["summary"] = summary(results)
            write_json(options.output, results)
    results["summary"] = summary(results)
    write_json(options.output, results)
    print(json.dumps(results["summary"], indent=1))


if __name__ == "__main__":
    main()
