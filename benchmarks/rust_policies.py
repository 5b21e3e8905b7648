"""Results of policies on Rust crates, from evaluations of several families, in one JSON file.

    CRATES=rust-system@Oz,rust-networking@Oz
    mlgo-gym evaluate mlgo/Inline-v0 --corpus $CRATES --policy inline-oz,threshold:0 --output runs/rust-Oz
    mlgo-gym search mlgo/Inline-v0 --corpus $CRATES --algorithm bundles --compiles 10 --output runs/search-Oz.jsonl
    python -m benchmarks.rust_policies runs/rust-Oz --search runs/search-Oz.jsonl --output runs/rust.json

The file has a part for each level, and in it an entry for each policy and each search. Intervals cover the choice of
crates. Crates without a decision are excluded. `default,POLICY` has the smaller of both, as `mlgo-rustc` keeps it, and
`smallest` that of all policies. With both levels, `plain` is rustc's own s against its own z.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring import Table, command_line, write_json
from mlgo_gym.evaluation.intervals import estimates
from mlgo_gym.evaluation.result import load_result
from mlgo_gym.evaluation.summary import Change

BEST = {"inline-oz-rust", "inline-os"}
"""Policies that are also measured together with `default`."""

Sizes = dict[str, tuple[float, float]]
"""Bytes with a policy and without one, by crate; names of modules start with the family."""


def main() -> None:
    """Run the program."""
    parser = command_line(__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="results of evaluations, whose names end in the level")
    parser.add_argument("--search", action="append", default=[], type=Path, help="results of searches; repeatable")
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    found: dict[str, dict[str, Sizes]] = {}
    for folder in arguments.folders:
        policies = found.setdefault(_level(folder), {})
        for summary in load_result(folder).summaries():
            changes = zip(summary.names, summary.changes["text"].pairs, strict=True)
            policies.setdefault(summary.policy, {}).update((_crate(name), pair) for name, pair in changes)
    for policies in found.values():
        smallest = _smallest(list(policies.values()))
        for name in BEST & policies.keys():
            policies[f"default,{name}"] = _smallest([policies[name]])
        policies["smallest"] = smallest
    for path in arguments.search:
        header, *lines = [json.loads(line) for line in path.read_text().splitlines()]
        sizes = {_crate(line["module"]): (line["cost"], line["baseline"]) for line in lines if line["error"] is None}
        found.setdefault(_level(path), {})[f"search, {header['compiles']} compiles"] = sizes
    levels = {level: {name: size for name, (_, size) in _any(policies).items()} for level, policies in found.items()}
    if {"oz", "os"} <= set(levels):
        common = sorted(levels["oz"].keys() & levels["os"].keys())
        found["os"]["plain"] = {name: (levels["os"][name], levels["oz"][name]) for name in common}
    content: dict[str, Any] = {}
    table = Table({"level": "<5", "policy": "<22", "crates": ">6", "mean": ">+9.2%", "total": ">+9.2%", "worse": ">5"})
    for level, policies in sorted(found.items(), reverse=True):
        content[level] = {"families": len({name.partition("/")[0] for sizes in policies.values() for name in sizes})}
        for policy, sizes in sorted(policies.items()):
            row = _row(sizes)
            content[level][policy] = row
            table.row(level, policy, row["crates"], row["mean"], row["total"], row["worse"])
    write_json(arguments.output, content)


def _level(path: Path) -> str:
    return path.stem.rpartition("-")[2].lower()


def _crate(module: str) -> str:
    """Return `FAMILY/CRATE/…` of a module's name in a joined corpus, without the level."""
    family, _, rest = module.partition("/")
    return f"{family.partition('@')[0]}/{rest}"


def _smallest(policies: Sequence[Sizes]) -> Sizes:
    """Return the least bytes by any policy or by none, of the crates that all policies have."""
    common = set.intersection(*(set(sizes) for sizes in policies))
    return {name: (min(min(sizes[name]) for sizes in policies), policies[0][name][1]) for name in common}


def _any(policies: dict[str, Sizes]) -> Sizes:
    return next(iter(policies.values()))


def _row(sizes: Sizes) -> dict[str, Any]:
    names = sorted(sizes)
    change = Change(tuple(sizes[name] for name in names), tuple(name.split("/")[1] for name in names))
    mean = estimates(change).mean
    return {
        "modules": len(names),
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


if __name__ == "__main__":
    main()
