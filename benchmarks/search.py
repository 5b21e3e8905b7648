"""Greedy search on snapshots against the same search by replay, and how far more compiles go.

    python benchmarks/search.py --corpus builtin --compiles 50 --json runs/search.json

The first table compares, module by module in one run, the seconds of the same search where forks copy the waiting clang
and where they replay its decisions in a fresh one; the costs found are equal. The second gives the change against the
compiler's own heuristic for several budgets.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

from mlgo_gym.envs import InlineEnv
from mlgo_gym.search import search_module


def without_snapshots() -> AbstractContextManager[object]:
    """Let forks replay."""
    return mock.patch("mlgo_gym.episode.snapshot_support", return_value=(False, "switched off by this benchmark"))


def compare(env: InlineEnv, names: list[str], compiles: int) -> list[dict[str, Any]]:
    """Search every module both ways."""
    rows = []
    for name in names:
        module = env.corpus.module(name)
        start = time.perf_counter()
        forked = search_module(env, module, "greedy", compiles=compiles)
        middle = time.perf_counter()
        with without_snapshots():
            replayed = search_module(env, module, "greedy", compiles=compiles)
        end = time.perf_counter()
        assert (forked.actions, forked.cost) == (replayed.actions, replayed.cost)
        row = {"module": name, "decisions": len(forked.actions), "compiles": forked.compiles}
        rows.append(
            {**row, "snapshots": middle - start, "replay": end - middle, "ratio": (middle - start) / (end - middle)}
        )
        print(f"{name:32} {len(forked.actions):9} {forked.compiles:8} {rows[-1]['ratio']:10.2f}")
    return rows


def gains(env: InlineEnv, names: list[str], budgets: list[int]) -> list[dict[str, Any]]:
    """Search every module with each budget."""
    rows = []
    for compiles in budgets:
        found = [search_module(env, env.corpus.module(name), "greedy", compiles=compiles) for name in names]
        assert all(result.verified for result in found)
        mean = statistics.mean(math.log(result.cost / result.baseline) for result in found)
        total = sum(result.cost for result in found) / sum(result.baseline for result in found)
        seconds = sum(result.seconds for result in found)
        rows.append({"compiles": compiles, "geometric_mean": math.expm1(mean), "total": total - 1, "seconds": seconds})
        print(f"{compiles:8} {math.expm1(mean):+15.2%} {total - 1:+8.2%} {seconds:8.0f} s")
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="builtin")
    parser.add_argument("--modules", type=int, default=12, help="so many, spread over the sizes")
    parser.add_argument("--compiles", type=int, default=50)
    parser.add_argument("--budgets", type=int, nargs="*", default=[50, 200])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    env = InlineEnv(corpus=arguments.corpus)
    names = [name for name in env.corpus.names if env.decisions(env.corpus.module(name))]
    names.sort(key=env.corpus.size)
    names = names[:: max(1, len(names) // arguments.modules)][: arguments.modules]
    print(f"Greedy search, {arguments.compiles} compiles, {arguments.corpus}: seconds with snapshots / by replay")
    print(f"{'module':32} {'decisions':>9} {'compiles':>8} {'ratio':>10}")
    rows = compare(env, names, arguments.compiles)
    whole = sum(row["snapshots"] for row in rows) / sum(row["replay"] for row in rows)
    print(f"median {statistics.median(row['ratio'] for row in rows):.2f}, of the whole time {whole:.2f}\n")
    print(f"{'compiles':>8} {'geometric mean':>15} {'total':>8} {'time':>10}")
    table = gains(env, names, arguments.budgets)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        result = {"corpus": arguments.corpus, "against_replay": rows, "of_whole_time": whole, "gains": table}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
