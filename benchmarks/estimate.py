"""How well `metric="estimated-instructions"` predicts counted instructions; writes docs/results/estimate.json.

    python -m benchmarks.estimate                # all programs; a program with a result does not run again

Each program is compiled at -Oz by plain clang and by four policies. For each policy the result has the estimated and
the counted change of the program, and of each function that both builds run and whose code differs. Counted are the
functions of the program's modules. The summary has rank correlations (Spearman).
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from scipy.stats import spearmanr

from benchmarks.measuring import command_line
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.compiled_objects import PLAIN, PolicyObjects
from mlgo_gym.evaluation.evaluated_policies import EvaluatedPolicies, RunnerSettings
from mlgo_gym.llvm.estimated_instructions import estimated_instructions
from mlgo_gym.programs import Program, link_program, measure_program, read_programs

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "estimate.json"

CORPORA = ("builtin", "programs")

POLICIES = ("never", "always", "threshold:50", "inline-oz")

LEAST = 1000
"""Smallest number of counted instructions of a function in plain clang's build."""

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


def main() -> None:
    """Measure the programs that the results lack, and print the correlations."""
    parser = command_line(__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS, help="path of the results")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.output.read_text()) if options.output.exists() else {"programs": {}}
    failed = 0
    for corpus in CORPORA:
        with ExitStack() as resources:
            arguments = {"metric": "estimated-instructions"}
            settings = RunnerSettings(
                "mlgo/Inline-v0", f"{corpus}@Oz", arguments, policies={name: name for name in POLICIES}
            )
            evaluated = EvaluatedPolicies(settings)
            resources.callback(evaluated.close)
            scratch = Path(resources.enter_context(tempfile.TemporaryDirectory()))
            objects = {}
            for number, name in enumerate((PLAIN, *POLICIES)):
                (scratch / str(number)).mkdir()
                objects[name] = PolicyObjects(evaluated, name, scratch / str(number))
            for program in read_programs(evaluated.env.corpus):
                if program.name in results["programs"]:
                    continue
                try:
                    costs = {name: costs_of(objects[name], evaluated, program, scratch) for name in objects}
                except MlgoError as error:
                    failed += 1
                    print(f"{program.name}: {error}", flush=True)
                    continue
                compared = {name: compare(costs[PLAIN], costs[name]) for name in POLICIES}
                results["programs"][program.name] = {"corpus": corpus, "policies": compared}
                results["summary"] = summary(results["programs"])
                options.output.write_text(json.dumps(results) + "\n")
                changes = ", ".join(
                    f"{name} {row['estimated']:+.3f} {row['counted']:+.3f}" for name, row in compared.items()
                )
                print(f"{program.name}: {changes}", flush=True)
    print(json.dumps(results.get("summary")))
    sys.exit(failed)


if __name__ == "__main__":
    main()
