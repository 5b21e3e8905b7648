"""Searches with snapshots against the same searches by replay, and the sizes that more compiles find.

    python -m benchmarks.search --json docs/results/search.json

The first table compares greedy searches whose forks copy the waiting clang with searches whose forks replay its
decisions in a fresh clang. The two take turns module by module, and must find the same. CPU seconds (of this process
and its compilers) hold on a busy machine. The second table gives the change against clang's own heuristic for several
budgets and algorithms; a search with a smaller budget is the beginning of one with a larger budget.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.measuring import Table, command_line, cpu_seconds, write_json
from mlgo_gym.env import CompilerEnv
from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.scheduling import Execution
from mlgo_gym.search import CorpusSearch, SearchResult, search_module

CASES: dict[str, tuple[type[CompilerEnv], dict[str, Any]]] = {
    "inlining": (InlineEnv, {}),
    "eviction, modules": (RegAllocEvictEnv, {}),
    "eviction, functions": (RegAllocEvictEnv, {"scope": "function"}),
}


def without_snapshots() -> AbstractContextManager[object]:
    """Make forks replay."""
    return mock.patch("mlgo_gym.episode.episode.snapshot_support", return_value=(False, "switched off by a benchmark"))


def search(env: CompilerEnv, name: str, function: str | None, compiles: int) -> tuple[SearchResult, float, float]:
    """Return the result of a search, its seconds and its CPU seconds."""
    start, cpu = time.perf_counter(), cpu_seconds()
    result = search_module(env, env.corpus.module(name), "greedy", compiles=compiles, function=function)
    return result, time.perf_counter() - start, cpu_seconds() - cpu


def compare(case: str, options: argparse.Namespace) -> dict[str, Any]:
    """Search some modules, or a function of each, with snapshots and by replay."""
    kind, arguments = CASES[case]
    env = kind(corpus=options.corpus, **arguments)
    names = few_decisions(env, options.max_decisions)
    names = names[:: max(1, len(names) // options.modules)][: options.modules]
    titles = {case: "<34", "decisions": ">9", "compiles": ">8", "ratio": ">6.2f", "CPU ratio": ">9.2f"}
    table, rows = Table(titles), []
    for name in names:
        counts = env.decisions(env.corpus.module(name))
        function = max(counts, key=lambda each: counts[each]) if "scope" in arguments else None
        found, seconds, cpu = search(env, name, function, options.compiles)
        with without_snapshots():
            replayed, replay_seconds, replay_cpu = search(env, name, function, options.compiles)
        assert (found.actions, found.cost, found.verified) == (replayed.actions, replayed.cost, True)
        row = {
            "module": name,
            "function": function,
            "decisions": len(found.actions),
            "compiles": found.compiles,
            "seconds": [seconds, replay_seconds],
            "cpu_seconds": [cpu, replay_cpu],
        }
        rows.append(row)
        table.row(name, row["decisions"], found.compiles, ratio([row], "seconds"), ratio([row], "cpu_seconds"))
    env.close()
    totals = {key: ratio(rows, key) for key in ("seconds", "cpu_seconds")}
    medians = {key: statistics.median(ratio([row], key) for row in rows) for key in totals}
    table.row("total", "", "", totals["seconds"], totals["cpu_seconds"])
    return {"case": case, "corpus": options.corpus, "total": totals, "medians": medians, "modules": rows}


def ratio(rows: list[dict[str, Any]], key: str) -> float:
    """Return the sum with snapshots divided by the sum by replay."""
    return float(sum(row[key][0] for row in rows) / sum(row[key][1] for row in rows))


def few_decisions(env: CompilerEnv, limit: int) -> list[str]:
    """Return the modules with 1 to `limit` decisions, those with the fewest first."""
    counts = {module.name: sum(env.decisions(module).values()) for module in env.corpus}
    return sorted((name for name in counts if 0 < counts[name] <= limit), key=lambda name: (counts[name], name))


def reductions(algorithm: str, corpus: str, options: argparse.Namespace, table: Table) -> dict[str, Any]:
    """Search a sample of a corpus with the largest budget; return the changes after each budget."""
    env = InlineEnv(corpus=corpus)
    eligible = few_decisions(env, options.max_decisions)
    # A smaller sample is the beginning of a larger one.
    names = sorted(random.Random(0).sample(eligible, len(eligible))[: options.sample])
    # On a busy machine one compile can take long.
    arguments = {"corpus": corpus, "compile_options": {"timeout": 600.0}}
    search = CorpusSearch("mlgo/Inline-v0", arguments, algorithm, max(options.budgets), names=tuple(names))
    output = None if options.results is None else options.results / f"{corpus}-{algorithm}.jsonl"
    found = list(search.run(output, Execution(options.jobs)))
    for result in found:
        assert result.verified, result
    rows = []
    for compiles in options.budgets:
        costs = [(result.cost_after(compiles), result.baseline) for result in found]
        mean = math.expm1(statistics.mean(math.log(cost / baseline) for cost, baseline in costs))
        total = sum(cost for cost, _ in costs) / sum(baseline for _, baseline in costs) - 1
        used = statistics.mean(min(compiles, result.compiles) for result in found)
        rows.append({"compiles": compiles, "mean_compiles": used, "geometric_mean": mean, "total": total})
        table.row(corpus, algorithm, len(found), *rows[-1].values())
    return {
        "algorithm": algorithm,
        "corpus": corpus,
        "modules_with_decisions": sum(bool(env.decisions(module)) for module in env.corpus),
        "max_decisions": options.max_decisions,
        "eligible": len(eligible),
        "budgets": rows,
        "modules": [
            {key: value for key, value in result.to_json().items() if key != "actions"}
            for result in sorted(found, key=lambda result: result.module)
        ],
    }


def main() -> None:
    """Measure, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--max-decisions", type=int, default=200, help="exclude larger modules (default: 200)")
    parser.add_argument("--json", type=Path, help="JSON file to write")
    group = parser.add_argument_group("first table")
    group.add_argument("--corpus", default="builtin", help="any corpus of mlgo-gym (default: builtin)")
    group.add_argument("--modules", type=int, default=6, help="modules per case, or 0 for no table (default: 6)")
    group.add_argument("--compiles", type=int, default=200, help="budget of a search (default: 200)")
    group = parser.add_argument_group("second table")
    group.add_argument("--gains", nargs="*", default=["builtin", "zstd"], help="corpora")
    group.add_argument("--algorithms", nargs="+", default=["greedy"], help="names of algorithms")
    group.add_argument("--sample", type=int, default=6, help="modules per corpus, drawn at random (default: 6)")
    group.add_argument("--budgets", type=int, nargs="+", default=[50, 200, 1000], help="numbers of compiles")
    group.add_argument("--jobs", type=int, default=2, help="number of processes (default: 2)")
    group.add_argument("--results", type=Path, help="folder of the searches; the same command resumes them")
    options = parser.parse_args()
    compared = []
    if options.modules:
        print(f"greedy search, at most {options.compiles} compiles, {options.corpus}: time with snapshots / by replay")
        compared = [compare(case, options) for case in CASES]
        print()
    titles = {"corpus": "<14", "algorithm": "<10", "modules": ">7", "compiles": ">8", "used": ">6.0f"}
    table = Table({**titles, "geomean": ">+8.2%", "total": ">+8.2%"})
    pairs = itertools.product(options.gains, options.algorithms)
    found = [reductions(algorithm, corpus, options, table) for corpus, algorithm in pairs]
    write_json(options.json, {"against_replay": compared, "gains": found})


if __name__ == "__main__":
    main()
