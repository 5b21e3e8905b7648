"""Agreement of estimated costs with their exact counterparts; writes docs/results/estimate.json.

    python -m benchmarks.estimate        # finished rows are not repeated

Each policy compiles all programs of `builtin` in the environment. The table compares relative changes against plain
clang: those of the estimate with those of the executed instructions, counted by running the program. The linked sizes
of whole builds are those of docs/results/linked_size.json. "Same sign" is the share of compiles with an exact change
whose estimate has its sign; a constant estimate has the share of the more frequent sign. The rank correlations
(Spearman) are over all compiles, and the mean of those within the programs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import spearmanr

from benchmarks.measuring import Table, command_line, write_json
from mlgo_gym import evaluate
from mlgo_gym.episode.options import with_compile_options
from mlgo_gym.evaluation.compiled_objects import PLAIN
from mlgo_gym.llvm.block_frequencies import FREQUENCY_FLAGS

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "estimate.json"

LINKED_SIZES = RESULTS.with_name("linked_size.json")

INLINING, EVICTION, PRIORITY = "mlgo/Inline-v0", "mlgo/RegAllocEvict-v0", "mlgo/RegAllocPriority-v0"

RULES = ("always", "never", "random", "threshold:0", "threshold:50")

POLICIES = {
    INLINING: (*RULES, "inline-os", "inline-oz"),
    EVICTION: ("random", "first_legal", "never_evict", "ratio:0.8", "ratio:1.25", "evict"),
    PRIORITY: ("random", "size_order"),
}

LEVELS = {INLINING: ("Os", "Oz"), EVICTION: ("Os",), PRIORITY: ("Os",)}

ESTIMATED, SPILLS, COUNTED = "estimated-instructions", "spill_cost", "instructions"

ESTIMATES = {INLINING: (ESTIMATED,), EVICTION: (ESTIMATED, SPILLS), PRIORITY: (ESTIMATED, SPILLS)}

Changes = dict[str, dict[str, float]]
"""Relative changes by module and metric."""


def changes(environment: str, corpus: str, policy: str, metric: str) -> Changes:
    """Return the relative changes of all metrics by module, against plain clang; spill costs per instruction."""
    arguments = with_compile_options({"metric": metric}, extra_flags=FREQUENCY_FLAGS, trust_flags=True)
    result = evaluate(environment, policies=[policy], corpus=corpus, env_kwargs=arguments)
    found: Changes = {}
    for episode in result.episodes:
        if episode.metrics:
            pairs = episode.metrics
            scale = {SPILLS: pairs[ESTIMATED][1]} if SPILLS in pairs else {}
            found[episode.module] = {
                name: (value - plain) / (scale.get(name, plain) or 1.0) for name, (value, plain) in pairs.items()
            }
    return found


def measure(records: dict[str, Any]) -> Iterator[None]:
    """Measure what the records lack; yield after each policy."""
    for environment, levels in LEVELS.items():
        for level in levels:
            for policy in POLICIES[environment]:
                row = records.setdefault(f"{environment}@{level}", {})
                if policy not in row:
                    found = changes(environment, f"builtin@{level}", policy, COUNTED)
                    names = (*ESTIMATES[environment], COUNTED)
                    row[policy] = {
                        module: [round(each[name], 9) for name in names] for module, each in sorted(found.items())
                    }
                    yield


class Pair(NamedTuple):
    """One compile: the changes of its estimate and of the exact cost."""

    program: str
    estimate: float
    exact: float


def agreement(pairs: list[Pair]) -> dict[str, float | int]:
    """Return the number of compiles with an exact change, same signs, and rank correlations."""
    moved = [pair for pair in pairs if pair.exact]
    signs = np.array([(pair.estimate > 0) == (pair.exact > 0) and pair.estimate != 0 for pair in moved])
    less = sum(pair.exact < 0 for pair in moved)
    by_program: dict[str, list[Pair]] = defaultdict(list)
    for pair in moved:
        by_program[pair.program].append(pair)
    within = [_rank(each) for each in by_program.values() if len(each) > 2]
    known = [rank for rank in within if not np.isnan(rank)]
    row: dict[str, float | int] = {"compiles": len(moved)}
    if len(moved) > 2:
        row |= {
            "same_sign": float(signs.mean()),
            "constant": max(less, len(moved) - less) / len(moved),
            "rank": float(np.nan_to_num(_rank(moved))),
        }
    if known:
        row["rank_within"] = float(np.mean(known))
    return row


def _rank(pairs: list[Pair]) -> float:
    columns = np.array([pair[1:] for pair in pairs])
    return float("nan") if (columns == columns[0]).all(0).any() else float(spearmanr(columns).statistic)


def summary(records: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agreement by estimate and setting, of all policies together and of each."""
    found: dict[str, Any] = {}
    grouped: dict[str, dict[str, list[Pair]]] = defaultdict(lambda: defaultdict(list))
    for setting, row in records.items():
        environment, _, level = setting.partition("@")
        for policy, modules in row.items():
            for column, name in enumerate(ESTIMATES[environment]):
                pairs = [Pair(module, each[column], each[-1]) for module, each in modules.items()]
                grouped[f"{name}, {environment.removeprefix('mlgo/')}, -{level}"][policy] += pairs
    for level, recorded in json.loads(LINKED_SIZES.read_text()).items():
        for build, policies in recorded["builds"].items():
            estimate, linked = _linked(policies[PLAIN])
            for policy in policies.keys() - {PLAIN}:
                costs = _linked(policies[policy])
                pair = Pair(build, costs[0] / estimate - 1, costs[1] / linked - 1)
                grouped[f"estimated-linked, Inline-v0, -{level}"][policy].append(pair)
    for key, policies in grouped.items():
        found[key] = {"all": agreement([pair for pairs in policies.values() for pair in pairs])}
        found[key] |= {policy: agreement(pairs) for policy, pairs in policies.items()}
    return found


def _linked(build: Mapping[str, Any]) -> tuple[float, float]:
    return build["estimate"], sum(build["linked"].values())


def main() -> None:
    """Measure what the results lack, and print the table."""
    parser = command_line(__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS, help="path of the results")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.output.read_text()) if options.output.exists() else {}
    records = results.setdefault("changes", {})
    for _ in measure(records):
        write_json(options.output, results)
    results["summary"] = summary(records)
    write_json(options.output, results)
    table = Table({"estimate": "<50", "policy": "<14", "compiles": ">8", "same sign": ">9.1%", "rank": ">6.2f"})
    for key, policies in results["summary"].items():
        for policy, row in policies.items():
            if "rank" in row:
                table.row(key, policy, row["compiles"], row["same_sign"], row["rank"])


if __name__ == "__main__":
    main()
