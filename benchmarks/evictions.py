"""Policies and a search of evictions on held-out programs; writes docs/results/evictions.json.

    python -m benchmarks.evictions                    # finished modules and programs are not repeated
    python -m benchmarks.evictions --parts modules    # without searches and executed instructions

Modules: plain clang, clang's own choices by rule (`default`) and the policies compile each module of the held-out
programs, and the price of each function is compared. "Best of two" keeps the cheaper of plain clang's and the policy's
code of each function. A search of all functions at once (`mlgo-gym search --algorithm functions`) shows how much is
left. On some of the modules a search with ten times as many compiles shows whether it finds more.

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
from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.protocol.decision import Decision
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
from mlgo_gym.search import search_module
from mlgo_gym.tasks.metrics import Program, link_program, measure_program, read_programs
from mlgo_gym.tasks.metrics.program_run import modules_of

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "evictions.json"

ENVIRONMENT, METRIC = "mlgo/RegAllocEvict-v0", "estimated-instructions"

BUNDLED = "evict"

POLICIES = ("default", "ratio:1.25", BUNDLED)

LEVELS = ("O2", "Os")

COMPILES, MANY_COMPILES = 30, 300
"""Compiles of the search of a module, and of the long one."""

MODULE_SEARCHES = {"searches": (COMPILES, None), "headroom": (MANY_COMPILES, 20)}
"""Searches of modules: the compiles of each, and the number of modules per level, drawn at random; None is all."""

SEARCHES = {"best_of_two": (BUNDLED, 3), "search": ("default", COMPILES)}
"""Searches of whole programs: the policy that they start from, and their compiles per module."""

LEAST = 1000
"""Smallest number of counted instructions of a function."""

LARGEST = 400_000
"""Largest bitcode of a module, in bytes."""

_SETTINGS = RunnerSettings(ENVIRONMENT, "programs@O2", {"metric": METRIC}, policies={name: name for name in POLICIES})
"""Settings of the programs."""


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


def compare(env: CompilerEnv, policies: Mapping[str, Policy], module: str) -> dict[str, Any] | None:
    """Return the price of a module by plain clang, and the change by each policy; None without a decision."""
    plain = measure_baseline(env.compilation(env.corpus.module(module)), env.setup.timeout, optimization_record=True)
    functions = plain.instructions or {}
    price = math.fsum(each.total for each in functions.values())
    record: dict[str, Any] = {"price": price, "policies": {}}
    for name, policy in policies.items():
        compiled = compile_by(env, policy, module)
        if not compiled.functions or not price:
            return None
        changes = [
            (compiled.costs[function] - each.instructions) * each.entries
            for function, each in functions.items()
            if function in compiled.costs
        ]
        record["policies"][name] = {
            "change": math.fsum(changes),
            "best_of_two": math.fsum(change for change in changes if change < 0),
            "worst_function": max(
                (
                    compiled.costs[function] / each.instructions - 1
                    for function, each in functions.items()
                    if each.instructions and function in compiled.costs
                ),
                default=0.0,
            ),
        }
        record["decisions"] = len(compiled.actions)
    return record


def measure_modules(level: str, results: dict[str, Any]) -> Iterator[None]:
    """Measure what the results lack of the modules of a level; yield after each."""
    env, modules = held_out(level)
    policies = {name: load_policy(name, env) for name in POLICIES}
    records = results.setdefault("modules", {}).setdefault(level, {})
    for module, project in modules.items():
        known = records.get(module, {"policies": {}})
        if known is None or known["policies"].keys() >= policies.keys():
            continue
        missing = {name: policy for name, policy in policies.items() if name not in known["policies"]}
        try:
            record = compare(env, missing, module)
        except MlgoError as error:
            print(f"{level} {module}: {error}", file=sys.stderr, flush=True)
            continue
        if record is not None:
            record |= {"project": project, "policies": {**known["policies"], **record["policies"]}}
        records[module] = record
        yield


def measure_search(level: str, results: dict[str, Any], key: str) -> Iterator[None]:
    """Make one of `MODULE_SEARCHES` of a level, and keep the results under its key; yield after each module."""
    env, _ = held_out(level)
    compiles, limit = MODULE_SEARCHES[key]
    known = sorted(name for name, record in results["modules"][level].items() if record is not None)
    names = np.random.default_rng(0).permutation(known)[:limit].tolist()
    records = results.setdefault(key, {}).setdefault(level, {})
    for name in names:
        if name not in records:
            found = search_module(env, env.corpus.module(name), "functions", compiles=compiles)
            # A build keeps plain clang's object if no other is better.
            change = min(0.0, found.cost / found.baseline - 1)
            records[name] = {"change": change, "verified": found.verified}
            yield


def measure_programs(results: dict[str, Any]) -> Iterator[None]:
    """Count the instructions of the programs that the results lack; yield after each."""
    records = results.setdefault("programs", {})
    corpus = open_corpus("programs@O2")
    for program in read_programs(corpus):
        if not program.held_out or program.name in records:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            evaluated = EvaluatedPolicies(_SETTINGS)
            try:
                counts = {}
                for number, name in enumerate((PLAIN, *POLICIES)):
                    folder = Path(scratch, str(number))
                    folder.mkdir()
                    counts[name] = count(program, PolicyObjects(evaluated, name, folder), evaluated, folder)
                found: dict[str, Any] = {name: {"instructions": sum(each.values())} for name, each in counts.items()}
                for name in POLICIES:
                    found[name]["functions"] = changed_functions(evaluated, name, program, counts)
            except MlgoError as error:
                print(f"{program.name}: {error}", file=sys.stderr, flush=True)
                continue
            finally:
                evaluated.close()
        records[program.name] = found
        yield


def measure_searches(results: dict[str, Any]) -> Iterator[None]:
    """Count instructions and memory accesses of the programs by the searches and the network; yield after each."""
    for name, record in results["programs"].items():
        if "accesses" in record[PLAIN]:
            continue
        with tempfile.TemporaryDirectory() as scratch, closing(EvaluatedPolicies(_SETTINGS)) as evaluated:
            env = evaluated.env
            (program,) = (each for each in read_programs(env.corpus) if each.name == name)
            assert env.corpus.path is not None
            for build in (PLAIN, BUNDLED, *SEARCHES):
                folder = Path(scratch, build)
                folder.mkdir()
                objects = PolicyObjects(evaluated, PLAIN if build in SEARCHES else build, folder)
                files = {module: objects.file(module) for module in modules_of(program, env.corpus.path)}
                if build in SEARCHES:
                    for module, file in files.items():
                        search(env, module, *SEARCHES[build], file)
                executable = folder / "program"
                link_program(program, env.corpus.path, files, executable, env.toolchain)
                each = record.setdefault(build, {})
                if build in SEARCHES:
                    counted = measure_program(program, env.corpus.path, files, executable, "cachegrind")
                    each["instructions"] = counted.instructions
                each["accesses"] = accesses(program, env.corpus.path, executable)
        yield


def search(env: CompilerEnv, name: str, start: str, compiles: int, file: Path) -> None:
    """Search a module, and write the object of a better allocation to a file."""
    module = env.corpus.module(name)
    if not env.decisions(module):
        return
    found = search_module(env, module, "functions", compiles=compiles, start=start)
    if found.verified and found.cost < found.baseline:
        remaining = iter(found.actions)

        def choose(decision: Decision) -> bytes:
            advice = env.task.encode(decision, next(remaining))
            assert advice is not None, "a search takes legal columns"
            return advice

        with env.compilation(module).session(env.task.advisors) as session:
            file.write_bytes(drive(session, choose, env.setup.timeout).object_bytes)


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


def count(program: Program, objects: PolicyObjects, evaluated: EvaluatedPolicies, folder: Path) -> Mapping[str, int]:
    """Return the counted instructions of a build by function, those of the C library included."""
    path = evaluated.env.corpus.path
    assert path is not None
    files = {module: objects.file(module) for module in modules_of(program, path)}
    executable = folder / "program"
    link_program(program, path, files, executable, evaluated.env.toolchain)
    return measure_program(program, path, files, executable, "cachegrind").functions


def changed_functions(
    evaluated: EvaluatedPolicies, name: str, program: Program, counts: Mapping[str, Mapping[str, int]]
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
            counted = [counts[build].get(function, 0) for build in (PLAIN, name)]
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
        rows = [each for each in records.values() if each is not None and each["policies"].keys() >= set(POLICIES)]
        if not rows:
            continue
        projects = tuple(each["project"] for each in rows)
        prices = np.array([each["price"] for each in rows])
        level_summary: dict[str, Any] = {"modules": len(rows), "projects": len(set(projects))}
        for name in POLICIES:
            level_summary[name] = {
                kind: row_of(np.array([each["policies"][name][kind] for each in rows]), prices, projects)
                for kind in ("change", "best_of_two")
            }
        searched, more = (results.get(key, {}).get(level, {}) for key in ("searches", "headroom"))
        for key, changes, names in (("search", searched, searched), ("many", more, more), ("few", searched, more)):
            if names and names.keys() <= changes.keys():
                kept = [records[name] for name in names]
                owners, their_prices = [each["project"] for each in kept], np.array([each["price"] for each in kept])
                relative = np.array([changes[name]["change"] for name in names])
                level_summary[key] = row_of(relative * their_prices, their_prices, owners)
        found[level] = level_summary
    programs = results.get("programs", {})
    functions = np.array([row for each in programs.values() for name in POLICIES for row in each[name]["functions"]])
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
    parser.add_argument("--parts", default="modules,searches,programs", help="modules, searches, programs")
    parser.add_argument("--output", type=Path, default=RESULTS, help="path of the results")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.output.read_text()) if options.output.exists() else {}
    results |= {"compiles": COMPILES, "many_compiles": MANY_COMPILES}
    parts = options.parts.split(",")
    work = [measure_modules(level, results) for level in LEVELS if "modules" in parts]
    if "searches" in parts:
        work += [measure_search(level, results, key) for key in MODULE_SEARCHES for level in LEVELS]
    if "programs" in parts:
        work += [measure_programs(results), measure_searches(results)]
    for part in work:
        for _ in part:
            results["summary"] = summary(results)
            write_json(options.output, results)
    results["summary"] = summary(results)
    write_json(options.output, results)
    print(json.dumps(results["summary"], indent=1))


if __name__ == "__main__":
    main()
