"""Do inlining and evictions add up? Compiles with either policy and with both; writes docs/results/joint.json.

    python -m benchmarks.joint

Each module of the programs of `builtin` at -Os is compiled four times: by plain clang, with a policy of inlining, with
`evict`, and with both at once. Its programs are run, and their instructions counted. The summary compares the change of
both with the sum of the two changes, in logarithms.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evictions import BUNDLED, interval_of_mean
from benchmarks.measuring import Table, command_line, write_json
from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.protocol.decision import Decision
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.session_policy import decision_info

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "joint.json"

CORPUS, INLINING = "builtin@Os", "threshold:5"

BUILDS = {"plain": (), "inlining": (0,), "evictions": (1,), "both": (0, 1)}
"""Indices of the deciding policies."""

METRICS = ("instructions", "text")


def compile_with(deciding: tuple[int, ...], envs: list[CompilerEnv], policies: list[Policy], name: str) -> list[float]:
    """Return executed instructions and bytes of a compile in which some policies decide."""
    setup = envs[0].setup
    tasks = [envs[index].task for index in deciding]
    advisors = [advisor for task in tasks for advisor in task.advisors]

    def choose(decision: Decision) -> bytes:
        task = tasks[decision.advisor]
        alone = decision._replace(advisor=0)
        info = decision_info(task, alone, name, 0)
        advice = task.encode(alone, policies[deciding[decision.advisor]].act(task.observe(alone), info))
        assert advice is not None, "policies take legal actions"
        return advice

    with envs[0].compilation(envs[0].corpus.module(name)).session(advisors) as session:
        data = drive(session, choose, setup.timeout).object_bytes
    return [setup.project_costs["instructions"].cost(name, data), object_sizes(data).text]


def summary(modules: dict[str, Any]) -> dict[str, Any]:
    """Return geometric means of the changes, and of what both change beyond the sum."""
    rows = [builds for builds in modules.values() if any(build != builds["plain"] for build in builds.values())]
    found: dict[str, Any] = {"modules": len(rows)}
    for column, metric in enumerate(METRICS):
        values = {build: np.log([builds[build][column] for builds in rows]) for build in BUILDS}
        changes = {build: values[build] - values["plain"] for build in BUILDS if build != "plain"}
        changes["beyond_the_sum"] = changes["both"] - changes["inlining"] - changes["evictions"]
        found[metric] = {
            name: {
                "mean": math.expm1(float(change.mean())),
                "interval": interval_of_mean(change, tuple(map(str, range(len(rows))))),
            }
            for name, change in changes.items()
        }
    return found


def main() -> None:
    """Measure the modules that the results lack, and print the summary."""
    parser = command_line(__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS, help="path of the results")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.output.read_text()) if options.output.exists() else {"modules": {}}
    inlining = make_environment("mlgo/Inline-v0", {"corpus": CORPUS, "metric": "instructions"})
    evictions = make_environment("mlgo/RegAllocEvict-v0", {"corpus": CORPUS})
    envs = [inlining, evictions]
    policies = [load_policy(INLINING, inlining), load_policy(BUNDLED, evictions)]
    for name in inlining.corpus.names:
        if name in results["modules"]:
            continue
        try:
            results["modules"][name] = {
                build: compile_with(deciding, envs, policies, name) for build, deciding in BUILDS.items()
            }
        except MlgoError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            continue
        write_json(options.output, results)
    results |= {"summary": summary(results["modules"]), "inlining": INLINING}
    write_json(options.output, results)
    table = Table({"metric": "<22", "decisions": "<14", "mean": ">8.2%"})
    for metric in METRICS:
        for name, change in results["summary"][metric].items():
            table.row(metric, name, change["mean"])


if __name__ == "__main__":
    main()
