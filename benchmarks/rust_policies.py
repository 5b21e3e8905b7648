"""Results of policies on Rust crates, from evaluations of several families, in one JSON file.

    CRATES=rust-system@Oz,rust-networking@Oz
    mlgo-gym evaluate mlgo/Inline-v0 --corpus $CRATES --policy inline-oz,threshold:0 --output runs/rust-Oz
    mlgo-gym search mlgo/Inline-v0 --corpus $CRATES --algorithm bundles --compiles 10 --output runs/search-Oz.jsonl
    python -m benchmarks.rust_policies runs/rust-Oz --search runs/search-Oz.jsonl --output runs/rust.json

The file has a part for each level, and in it an entry for each policy and each search. Entries of an earlier run stay,
except those of the policies and searches that are given. Intervals cover the choice of crates. Crates without a
decision are excluded. `default,POLICY` has the smaller of both, as `mlgo-rustc` keeps it, and `smallest` that of all
policies. With `--plain`, the entry `plain` of s is rustc's own s against its own z.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.measuring import Table, command_line, write_json
from benchmarks.reference_table import Sizes, facts_of, smallest_sizes
from mlgo_gym.evaluation.result import load_result
from mlgo_gym.evaluation.summary import Change

BEST = {"inline-oz-rust", "inline-os"}
"""Policies that are also measured together with `default`."""


def main() -> None:
    """Run the program."""
    parser = command_line(__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="results of evaluations, whose names end in the level")
    parser.add_argument("--search", action="append", default=[], type=Path, help="results of searches; repeatable")
    parser.add_argument("--plain", action="append", default=[], type=Path, help="results at z of the crates of s")
    parser.add_argument("--output", type=Path, help="JSON file")
    arguments = parser.parse_args()
    found: dict[str, dict[str, Sizes]] = {}
    for folder in arguments.folders:
        policies = found.setdefault(_level(folder), {})
        for policy, sizes in _sizes(folder).items():
            policies.setdefault(policy, {}).update(sizes)
    for policies in found.values():
        smallest = smallest_sizes(list(policies.values()))
        for name in BEST & policies.keys():
            policies[f"default,{name}"] = smallest_sizes([policies[name]])
        policies["smallest"] = smallest
    if arguments.plain:
        at_z = {name: size for folder in arguments.plain for name, (_, size) in _any(_sizes(folder)).items()}
        at_s = {name: size for name, (_, size) in found["os"]["smallest"].items()}
        found["os"]["plain"] = {name: (at_s[name], at_z[name]) for name in at_s.keys() & at_z.keys()}
    for path in arguments.search:
        header, *lines = [json.loads(line) for line in path.read_text().splitlines()]
        sizes = {_crate(line["module"]): (line["cost"], line["baseline"]) for line in lines if line["error"] is None}
        found.setdefault(_level(path), {})[f"search, {header['compiles']} compiles"] = sizes
    is_new = arguments.output is None or not arguments.output.exists()
    content: dict[str, Any] = {} if is_new else json.loads(arguments.output.read_bytes())
    table = Table({"level": "<5", "policy": "<22", "crates": ">6", "mean": ">+9.2%", "total": ">+9.2%", "worse": ">5"})
    for level, policies in sorted(found.items(), reverse=True):
        rows = content.get(level, {}) | {policy: _row(sizes) for policy, sizes in policies.items()}
        content[level] = dict(sorted(rows.items()))
        for policy, row in content[level].items():
            table.row(level, policy, row["crates"], row["mean"], row["total"], row["worse"])
    write_json(arguments.output, content)


def _sizes(folder: Path) -> dict[str, Sizes]:
    """Return the bytes of the crates in an evaluation, by policy; names start with the family."""
    summaries = load_result(folder).summaries()
    return {
        summary.policy: {
            _crate(name): pair for name, pair in zip(summary.names, summary.changes["text"].pairs, strict=True)
        }
        for summary in summaries
    }


def _level(path: Path) -> str:
    return path.stem.rpartition("-")[2].lower()


def _crate(module: str) -> str:
    """Return `FAMILY/CRATE/…` of a module's name in a joined corpus, without the level."""
    family, _, rest = module.partition("/")
    return f"{family.partition('@')[0]}/{rest}"


def _any(policies: dict[str, Sizes]) -> Sizes:
    return next(iter(policies.values()))


def _row(sizes: Sizes) -> dict[str, Any]:
    names = sorted(sizes)
    change = Change(tuple(sizes[name] for name in names), tuple(name.split("/")[1] for name in names))
    return {"crates": len(set(change.clusters)), **facts_of(change)}


if __name__ == "__main__":
    main()
