"""Results of policies on Rust crates, from evaluations of several families, in one JSON file.

    mlgo-gym evaluate mlgo/Inline-v0 --corpus rust-text@Oz --policy inline-oz,threshold:0 --output runs/rust-text-Oz
    python -m benchmarks.rust_policies runs/rust-*-Oz --output docs/results/rust_policies.json

The file has a part for each level, and in it an entry for each policy. Intervals cover the choice of crates.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.measuring import Table, command_line, write_json
from mlgo_gym.evaluation.intervals import estimates
from mlgo_gym.evaluation.result import load_result
from mlgo_gym.evaluation.summary import Change


def main() -> None:
    """Run the program."""
    parser = command_line(__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="results of evaluations, whose names end in the level")
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    found: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    families: dict[str, int] = {}
    for folder in arguments.folders:
        level = folder.name.rpartition("-")[2].lower()
        families[level] = families.get(level, 0) + 1
        for summary in load_result(folder).summaries():
            changes = dict(zip(summary.names, summary.changes["text"].pairs, strict=True))
            found.setdefault(level, {}).setdefault(summary.policy, {}).update(changes)
    content: dict[str, Any] = {}
    table = Table({"level": "<5", "policy": "<16", "crates": ">6", "mean": ">+9.2%", "total": ">+9.2%", "worse": ">5"})
    for level, policies in sorted(found.items()):
        content[level] = {"families": families[level]}
        for policy, pairs_by_module in sorted(policies.items()):
            names = sorted(pairs_by_module)
            pairs = tuple(pairs_by_module[name] for name in names)
            change = Change(pairs, tuple(name.partition("/")[0] for name in names))
            mean = estimates(change).mean
            content[level][policy] = {
                "modules": len(pairs),
                "crates": len(set(change.clusters)),
                "text": round(change.value),
                "clang": round(change.baseline),
                "mean": mean.value,
                "low": mean.low,
                "high": mean.high,
                "total": change.total,
                "better": change.better,
                "equal": change.equal,
                "worse": change.worse,
            }
            table.row(level, policy, len(set(change.clusters)), mean.value, change.total, change.worse)
    write_json(arguments.output, content)


if __name__ == "__main__":
    main()
