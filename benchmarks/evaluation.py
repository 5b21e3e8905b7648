"""How long an evaluation takes by how many processes there are, and how many episodes each runs at once.

    python benchmarks/evaluation.py --corpus builtin --policy default --policy mlp:FILE --json evaluation.json

The settings take turns, several times over, and the median counts. Baselines are known before the first. All of them
must come to the same results: sizes, rewards and actions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import mlgo_gym
from mlgo_gym.corpus import open_corpus
from mlgo_gym.evaluation import EvaluationResult, evaluate
from mlgo_gym.llvm.toolchain import find_toolchain


def outcome(result: EvaluationResult) -> list[tuple[Any, ...]]:
    """Return what does not depend on the time, and fail if anything did."""
    if result.failures:
        raise SystemExit(f"an episode failed: {result.failures[0]}")
    return sorted((each.policy, each.module, each.measures, each.reward, each.actions) for each in result.episodes)


def main() -> None:
    """Measure, print a table, and write it as JSON where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", default="mlgo/Inline-v0")
    parser.add_argument("--corpus", default="builtin")
    parser.add_argument("--largest", type=int, default=100_000, help="bytes of bitcode of a module")
    parser.add_argument("--policy", action="append", help="as `mlgo-gym evaluate` takes them; default: default, random")
    parser.add_argument("--jobs", default="1,2")
    parser.add_argument("--envs", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    policies = options.policy or ["default", "random"]
    corpus = open_corpus(options.corpus, toolchain=find_toolchain()).filter(bytes=(0, options.largest))
    settings = [(int(jobs), int(envs)) for jobs in options.jobs.split(",") for envs in options.envs.split(",")]

    def run(jobs: int, envs: int) -> tuple[float, EvaluationResult]:
        started = time.perf_counter()
        result = evaluate(options.environment, corpus=corpus, policies=policies, jobs=jobs, envs=envs)
        return time.perf_counter() - started, result

    _, first = run(1, 1)
    expected = outcome(first)
    times: dict[tuple[int, int], list[float]] = {setting: [] for setting in settings}
    for _ in range(options.rounds):
        for setting in settings:
            seconds, result = run(*setting)
            if outcome(result) != expected:
                raise SystemExit(f"jobs and envs {setting} came to other results")
            times[setting].append(seconds)
    decisions = sum(each.decisions for each in first.episodes)
    print(f"{len(first.episodes)} episodes, {decisions:,} decisions, the same with all settings")
    print(f"{'jobs':>4} {'envs':>4} {'seconds':>8} {'faster than envs=1 with the same jobs':>38}")
    table = []
    for jobs, envs in settings:
        median = statistics.median(times[jobs, envs])
        # Within each round, so that what else the machine does weighs on both.
        pairs = zip(times.get((jobs, 1), times[jobs, envs]), times[jobs, envs], strict=True)
        ratio = statistics.median(before / after for before, after in pairs)
        print(f"{jobs:4} {envs:4} {median:8.2f} {ratio:36.2f} x")
        table.append({"jobs": jobs, "envs": envs, "median_seconds": round(median, 3), "ratio": round(ratio, 3)})
    if options.json:
        head = {"mlgo_gym": mlgo_gym.__version__, "corpus": options.corpus, "policies": policies}
        options.json.write_text(
            json.dumps({**head, "decisions": decisions, "table": table, "times": list(times.values())}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
