"""How well `metric="estimated-instructions"` predicts counted instructions; writes docs/results/estimate.json.

    python -m benchmarks.estimate                # all programs; a program with a result does not run again
    python -m benchmarks.estimate --profile      # the same with a profile of each program; needs the LLVM of clang

Each program is compiled at -Oz by plain clang and by four policies. For each policy the result has the estimated and
the counted change of the program, and of each function that both builds run and whose code differs. Counted are the
functions of the program's modules. The summary has rank correlations (Spearman).

With `--profile` clang also instruments each program (`-fprofile-instrument=llvm`). Its runs make a profile, which all
builds of the program use. The library that writes the profile and llvm-profdata are those of an installed LLVM, because
the bundled compiler has neither.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scipy.stats import spearmanr

from benchmarks.measuring import command_line
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.compiled_objects import PLAIN, PolicyObjects
from mlgo_gym.evaluation.evaluated_policies import EvaluatedPolicies, RunnerSettings
from mlgo_gym.llvm.estimated_instructions import estimated_instructions
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.programs import Program, link_program, measure_program, read_programs
from mlgo_gym.programs.counters import PROGRAM_TARGET, run_program

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "estimate.json"

CORPORA = ("builtin", "programs")

POLICIES = ("never", "always", "threshold:50", "inline-oz")

LEAST = 1000
"""Smallest number of counted instructions of a function in plain clang's build."""

PROFILE_SHIM = """
#include <stdarg.h>
#include <stdio.h>
extern int __llvm_profile_runtime;
int *keep_the_runtime = &__llvm_profile_runtime;
int __fprintf_chk(FILE *file, int flag, const char *format, ...) {
  va_list values;
  va_start(values, format);
  return vfprintf(file, format, values);
}
int __snprintf_chk(char *text, size_t size, int flag, size_t most, const char *format, ...) {
  va_list values;
  va_start(values, format);
  return vsnprintf(text, size, format, values);
}
"""
"""The functions of glibc that the profile runtime of a distribution calls, for programs with musl."""

Costs = dict[str, tuple[float, float, int]]
"""Total estimate, estimate of one call, and counted instructions by function."""


def costs_of(objects: PolicyObjects, evaluated: EvaluatedPolicies, program: Program, folder: Path) -> Costs:
    """Return the costs of each function of a program whose name is unique among its modules."""
    path = evaluated.env.corpus.path
    assert path is not None
    files = {name: objects.file(name) for name in program.modules}
    executable = folder / "program"
    link_program(program, path, files, executable, evaluated.env.toolchain)
    counted = measure_program(program, path, files, executable, "cachegrind").functions
    estimates = [estimated_instructions(file.read_bytes()) for file in files.values()]
    seen = Counter(name for each in estimates for name in each)
    return {
        name: (cost.total, cost.instructions, counted.get(name, 0))
        for each in estimates
        for name, cost in each.items()
        if seen[name] == 1
    }


def compare(before: Costs, after: Costs) -> dict[str, Any]:
    """Return the changes of a program: logarithms of the ratio of both builds, estimated and counted."""
    sums = [[sum(cost[column] for cost in costs.values()) for costs in (before, after)] for column in (0, 2)]
    functions = [
        [round(math.log(new[0] / old[0]), 4), round(math.log(new[2] / old[2]), 4)]
        for name, old in before.items()
        if old[2] >= LEAST and old[0] > 0
        for new in [after.get(name)]
        if new is not None and new[2] > 0 and new[0] > 0 and new != old
    ]
    estimated, counted = (math.log(new / old) for old, new in sums)
    return {"estimated": round(estimated, 6), "counted": round(counted, 6), "functions": functions}


def summary(programs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rank correlations over programs and over functions."""
    rows = [row for program in programs.values() for row in program["policies"].values()]
    functions = [pair for row in rows for pair in row["functions"]]
    changed = [(row["estimated"], row["counted"]) for row in rows if row["functions"]]
    found: dict[str, Any] = {}
    for name, pairs in (("builds", changed), ("functions", functions)):
        if len(pairs) > 2:
            found[name] = {"count": len(pairs), "correlation": round(float(spearmanr(pairs).statistic), 3)}
            same = sum((first < 0) == (second < 0) for first, second in pairs if second)
            found[name]["same_sign"] = round(same / sum(bool(second) for _, second in pairs), 3)
    return found


def settings(corpus: str, flags: Sequence[str] = ()) -> RunnerSettings:
    """Return the settings of the builds of a corpus, with further flags of clang."""
    arguments = {"metric": "estimated-instructions", "compile_options": {"extra_flags": list(flags)}}
    return RunnerSettings("mlgo/Inline-v0", f"{corpus}@Oz", arguments, policies={name: name for name in POLICIES})


def make_profile(corpus: str, program: Program, folder: Path) -> Path:
    """Return the profile of all runs of a program, which clang instruments."""
    evaluated = EvaluatedPolicies(settings(corpus, ("-fprofile-instrument=llvm",)))
    try:
        env = evaluated.env
        path = env.corpus.path
        assert path is not None
        objects = PolicyObjects(evaluated, PLAIN, folder)
        files = {name: objects.file(name) for name in program.modules}
        shim = folder / "shim.c"
        shim.write_text(PROFILE_SHIM)
        files["shim"] = shim.with_suffix(".o")
        compiler = [*bundled_command("cc"), "-target", PROGRAM_TARGET, "-O1"]
        subprocess.run([*compiler, "-c", str(shim), "-o", str(files["shim"])], check=True)
        major = env.toolchain.version[0]
        answer = subprocess.run([f"clang-{major}", "--print-resource-dir"], check=True, capture_output=True, text=True)
        files["runtime"] = next(Path(answer.stdout.strip()).glob("lib/*/libclang_rt.profile-x86_64.a"))
        executable = folder / "instrumented"
        link_program(replace(program, modules=tuple(files)), path, files, executable, env.toolchain)
        raw = []
        for number, run in enumerate(program.runs):
            place = folder / f"run-{number}"
            place.mkdir()
            for file in run.files:
                shutil.copy(path / file, place)
            run_program([str(executable), *run.arguments], place)
            raw += [str(found) for found in place.glob("*.profraw")]
        merged = folder / "program.profdata"
        subprocess.run([f"llvm-profdata-{major}", "merge", *raw, "-o", str(merged)], check=True)
        return merged
    finally:
        evaluated.close()


def compare_policies(evaluated: EvaluatedPolicies, program: Program, scratch: Path) -> dict[str, Any]:
    """Return the changes of a program by each policy; errors are those of its compiles and runs."""
    costs = {}
    for number, name in enumerate((PLAIN, *POLICIES)):
        folder = scratch / str(number)
        folder.mkdir()
        costs[name] = costs_of(PolicyObjects(evaluated, name, folder), evaluated, program, scratch)
    return {name: compare(costs[PLAIN], costs[name]) for name in POLICIES}


def measure(corpus: str, program: Program, *, with_profile: bool) -> dict[str, Any]:
    """Return the result of a program."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        flags: tuple[str, ...] = ()
        if with_profile:
            profile = make_profile(corpus, program, Path(first))
            flags = ("-fprofile-instrument-use=llvm", f"-fprofile-instrument-use-path={profile}")
        evaluated = EvaluatedPolicies(settings(corpus, flags))
        try:
            return {"corpus": corpus, "policies": compare_policies(evaluated, program, Path(second))}
        finally:
            evaluated.close()


def main() -> None:
    """Measure the programs that the results lack, and print the correlations."""
    parser = command_line(__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS, help="path of the results")
    parser.add_argument("--profile", action="store_true", help="compile each program with a profile of its runs")
    parser.add_argument("--only", default="", help="programs, separated by commas (default: all)")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.output.read_text()) if options.output.exists() else {"programs": {}}
    section = results.setdefault("profile", {"programs": {}}) if options.profile else results
    chosen = set(filter(None, options.only.split(",")))
    failed = 0
    for corpus in CORPORA:
        for program in read_programs(open_corpus(f"{corpus}@Oz")):
            if program.name in section["programs"] or (chosen and program.name not in chosen):
                continue
            try:
                found = measure(corpus, program, with_profile=options.profile)
            except MlgoError as error:
                failed += 1
                print(f"{program.name}: {error}", flush=True)
                continue
            section["programs"][program.name] = found
            section["summary"] = summary(section["programs"])
            if options.profile:
                known = results["programs"]
                section["without"] = summary({name: known[name] for name in section["programs"] if name in known})
            options.output.write_text(json.dumps(results) + "\n")
            rows = found["policies"].items()
            changes = ", ".join(f"{name} {row['estimated']:+.3f} {row['counted']:+.3f}" for name, row in rows)
            print(f"{program.name}: {changes}", flush=True)
    print(json.dumps(section.get("summary")))
    sys.exit(failed)


if __name__ == "__main__":
    main()
