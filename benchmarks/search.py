"""Greedy search on snapshots against the same search by replay, and how far more compiles go.

    python benchmarks/search.py --json docs/results/search.json

The first table compares the same search where forks copy the waiting clang and where they replay its decisions in a
fresh one, answers sent ahead; module by module, in turn, in one run; what is found is equal. Beside the time it has the
processor's time, of this process and all compilers, which a busy machine changes less. The second table gives the
change against the compiler's own heuristic for several budgets and algorithms: a search with a smaller budget is the
beginning of the same search with a larger one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import statistics
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

from mlgo_gym.env import CompilerEnv
from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.search import CorpusSearch, SearchResult, search_module

CASES: dict[str, tuple[type[CompilerEnv], dict[str, Any]]] = {
    "inlining": (InlineEnv, {}),
    "eviction, modules": (RegAllocEvictEnv, {}),
    "eviction, functions": (RegAllocEvictEnv, {"scope": "function"}),
}


def without_snapshots() -> AbstractContextManager[object]:
    """Let forks replay."""
    return mock.patch("mlgo_gym.episode.episode.snapshot_support", return_value=(False, "switched off here"))


def clock() -> tuple[float, float]:
    """Return the time, and the processor's time of this process and its children that have ended, in seconds."""
    return time.perf_counter(), sum(os.times()[:4])


def search(env: CompilerEnv, name: str, function: str | None, compiles: int) -> tuple[SearchResult, float, float]:
    """Return what a search finds, its time and its processor's time."""
    start = clock()
    result = search_module(env, env.corpus.module(name), "greedy", compiles=compiles, function=function)
    end = clock()
    return result, end[0] - start[0], end[1] - start[1]


def compare(case: str, corpus: str, modules: int, most: int, compiles: int) -> dict[str, Any]:
    """Search some modules, or a function of each, both ways."""
    kind, options = CASES[case]
    env = kind(corpus=corpus, **options)
    names = few_decisions(env, most)
    names = names[:: max(1, len(names) // modules)][:modules]
    rows = []
    for name in names:
        counts = env.decisions(env.corpus.module(name))
        function = max(counts, key=lambda each: counts[each]) if "scope" in options else None
        ours, seconds, processor = search(env, name, function, compiles)
        with without_snapshots():
            theirs, replay_seconds, replay_processor = search(env, name, function, compiles)
        assert (ours.actions, ours.cost, ours.verified) == (theirs.actions, theirs.cost, True)
        rows.append(
            {
                "module": name,
                "function": function,
                "decisions": len(ours.actions),
                "compiles": ours.compiles,
                "seconds": [seconds, replay_seconds],
                "processor_seconds": [processor, replay_processor],
            }
        )
        print(f"  {name:34} {len(ours.actions):9} {ours.compiles:8} {ratio(rows[-1:], 'seconds'):8.2f}", end="")
        print(f" {ratio(rows[-1:], 'processor_seconds'):10.2f}", flush=True)
    env.close()
    whole = {key: ratio(rows, key) for key in ("seconds", "processor_seconds")}
    medians = {key: statistics.median(ratio([row], key) for row in rows) for key in whole}
    print(f"{case + ': all':55} {whole['seconds']:8.2f} {whole['processor_seconds']:10.2f}", flush=True)
    return {"case": case, "corpus": corpus, "of_the_whole": whole, "medians": medians, "modules": rows}


def ratio(rows: list[dict[str, Any]], key: str) -> float:
    """Return the sum with snapshots over the sum with replay."""
    return float(sum(row[key][0] for row in rows) / sum(row[key][1] for row in rows))


def few_decisions(env: CompilerEnv, most: int) -> list[str]:
    """Return the modules with at most so many decisions, those with the fewest first."""
    counts = {module.name: sum(env.decisions(module).values()) for module in env.corpus}
    return sorted((name for name in counts if 0 < counts[name] <= most), key=lambda name: (counts[name], name))


def gains(
    algorithm: str, corpus: str, sample: int, most: int, budgets: list[int], jobs: int, output: Path | None
) -> dict[str, Any]:
    """Search a sample of a corpus with the largest budget, and say what the smaller ones had found by then."""
    env = InlineEnv(corpus=corpus)
    eligible = few_decisions(env, most)
    # A smaller sample is the beginning of a larger one.
    names = sorted(random.Random(0).sample(eligible, len(eligible))[:sample])
    # Where every processor is taken a compile can take long.
    settings = {"corpus": corpus, "timeout": 600.0}
    search = CorpusSearch("mlgo/Inline-v0", settings, algorithm, max(budgets), names=tuple(names))
    found = list(search.run(output, jobs))
    for result in found:
        assert result.verified, result
    rows = []
    for compiles in budgets:
        costs = [(result.cost_after(compiles), result.baseline) for result in found]
        mean = math.expm1(statistics.mean(math.log(cost / baseline) for cost, baseline in costs))
        total = sum(cost for cost, _ in costs) / sum(baseline for _, baseline in costs) - 1
        spent = statistics.mean(min(compiles, result.compiles) for result in found)
        rows.append({"compiles": compiles, "mean_compiles": spent, "geometric_mean": mean, "total": total})
        row = f"{corpus:8} {algorithm:10} {len(found):7} {compiles:9} {spent:6.0f} {mean:+8.2%} {total:+8.2%}"
        print(row, flush=True)
    return {
        "algorithm": algorithm,
        "corpus": corpus,
        "modules_with_decisions": sum(bool(env.decisions(module)) for module in env.corpus),
        "most_decisions": most,
        "eligible": len(eligible),
        "budgets": rows,
        "modules": [summary(result) for result in sorted(found, key=lambda result: result.module)],
    }


def summary(result: SearchResult) -> dict[str, Any]:
    """Return a result without its decisions, of which there can be thousands."""
    return {key: value for key, value in result.to_json().items() if key != "actions"}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="builtin", help="for the first table")
    parser.add_argument("--modules", type=int, default=6, help="so many of each case, spread over their decisions")
    parser.add_argument("--compiles", type=int, default=200, help="for the first table")
    parser.add_argument("--gains", nargs="*", default=["builtin", "zstd"], help="corpora for the second table")
    parser.add_argument("--algorithms", nargs="+", default=["greedy"], help="for the second table")
    parser.add_argument("--sample", type=int, default=6, help="so many modules of each, drawn at random")
    parser.add_argument("--most-decisions", type=int, default=200, help="leave larger modules out of both tables")
    parser.add_argument("--budgets", type=int, nargs="+", default=[50, 200, 1000])
    parser.add_argument("--jobs", type=int, default=2, help="for the second table")
    parser.add_argument("--results", type=Path, help="a folder for the second table's searches, to go on with")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    most = arguments.most_decisions
    compared = []
    if arguments.modules:
        print(f"Greedy search, at most {arguments.compiles} compiles, {arguments.corpus}: snapshots / replay")
        print(f"  {'module':34} {'decisions':>9} {'compiles':>8} {'time':>8} {'processor':>10}")
        compared = [compare(case, arguments.corpus, arguments.modules, most, arguments.compiles) for case in CASES]
    titles = f"{'corpus':8} {'algorithm':10} {'modules':>7} {'compiles':>9} {'used':>6} {'geomean':>8} {'total':>8}"
    print(f"\n{titles}")
    table = []
    for corpus, algorithm in itertools.product(arguments.gains, arguments.algorithms):
        output = None if arguments.results is None else arguments.results / f"{corpus}-{algorithm}.jsonl"
        table.append(gains(algorithm, corpus, arguments.sample, most, arguments.budgets, arguments.jobs, output))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps({"against_replay": compared, "gains": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
