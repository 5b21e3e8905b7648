"""Write the results of a policy in the box into its model card.

What stands in `NAME.md` between two marks, and `test` of `NAME.json`, is made of an evaluation of the test split:

    python -m benchmarks.model_card inline-oz-calls runs/test --beside runs/plain
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from mlgo_gym.evaluation.intervals import estimates
from mlgo_gym.evaluation.result import EvaluationResult, load_result
from mlgo_gym.evaluation.summary import TEXT, Change
from mlgo_gym.policies.box import BOX
from mlgo_gym.policies.model_files import file_digest
from mlgo_gym.policies.network import Network
from mlgo_gym.storage.cache import write_atomically

BEGIN, END = "<!-- results: begin, by benchmarks/model_card.py -->\n", "<!-- results: end -->\n"
LOSSES = 10
"""So many modules that got larger are named."""


def change_of(result: EvaluationResult, policy: str, project: str | None = None) -> Change:
    """Return how the bytes of code changed by a policy."""
    (summary,) = (each for each in result.summaries(project) if each.policy == policy)
    return summary.changes[TEXT]


def percent(value: float) -> str:
    """Return a change as a table has it."""
    return f"{value:+.2%}".replace("%", " %").replace("-", "\N{MINUS SIGN}")


def apart(change: Change) -> Change:
    """Return the same change, each module for itself: intervals are over modules alone."""
    return Change(change.pairs)


def interval(change: Change) -> tuple[float, float]:
    """Return the 95 % interval of the geometric mean."""
    found = estimates(change).mean.interval
    return (change.mean, change.mean) if found is None else (found[0], found[1])


def tables(result: EvaluationResult, policy: str, beside: list[EvaluationResult]) -> str:
    """Return the tables of the card for people."""
    change = change_of(result, policy)
    bytes_of_code = f"{change.value:,.0f} against {change.baseline:,.0f} bytes"
    lines = [
        f"{len(change.pairs)} modules with a decision; {bytes_of_code}, {change.equal} equal.",
        "",
        "| policy | geometric mean | by project | total | better | worse |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [line(name, change_of(each, name)) for each in (result, *beside) for name in each.policies]
    lines += ["", "| project | modules | geometric mean | total |", "|---|---:|---:|---:|"]
    for project in result.projects:
        of = change_of(result, policy, project)
        if of.pairs:
            lines.append(f"| {project} | {len(of.pairs)} | {percent(of.mean)} | {percent(of.total)} |")
    (summary,) = (each for each in result.summaries() if each.policy == policy)
    sizes = zip(summary.names, change.pairs, strict=True)
    larger = [(now / before - 1, name, before, now) for name, (now, before) in sizes if now > before]
    lines += ["", "## Where it loses", "", f"| module | clang | {policy} | change |", "|---|---:|---:|---:|"]
    for grown, name, before, now in sorted(larger, reverse=True)[:LOSSES]:
        lines.append(f"| `{name}` | {before:,.0f} | {now:,.0f} | {percent(grown)} |")
    return "\n".join(lines) + "\n"


def line(policy: str, change: Change) -> str:
    """Return a row of the table of policies."""
    modules, projects = (
        ", ".join(percent(end).removesuffix(" %") for end in interval(each)) for each in (apart(change), change)
    )
    share = f"{change.worse / len(change.pairs):.1%}".replace("%", " %")
    return (
        f"| `{policy}` | {percent(change.mean)} [{modules}] | [{projects}] | {percent(change.total)} | {change.better} "
        f"| {change.worse} ({share}) |"
    )


def facts(result: EvaluationResult, policy: str) -> dict[str, Any]:
    """Return the results for programs."""
    change = change_of(result, policy)
    projects = {}
    for project in result.projects:
        of = change_of(result, policy, project)
        if of.pairs:
            projects[project] = {"modules": len(of.pairs), "geometric_mean": of.mean, "total": of.total}
    return {
        "modules": len(change.pairs),
        "geometric_mean": change.mean,
        "interval": list(interval(apart(change))),
        "interval_by_project": list(interval(change)),
        "total": change.total,
        "better": change.better,
        "worse": change.worse,
        "equal": change.equal,
        "projects": projects,
    }


def main() -> None:
    """Write both cards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="the network's name in the box")
    parser.add_argument("results", type=Path, help="a folder of results, of this policy alone")
    parser.add_argument(
        "--beside", type=Path, nargs="*", default=[], help="other policies' results on the same modules"
    )
    options = parser.parse_args()
    file = BOX / f"{options.name}.safetensors"
    result = load_result(options.results)
    (policy,) = result.policies
    network = Network.load(file)
    path = file.with_suffix(".json")
    card = json.loads(path.read_text()) if path.exists() else {"name": options.name}
    card |= {"sha256": file_digest(file), "features": len(network.features), "test": facts(result, policy)}
    write_atomically(path, (json.dumps(card, indent=2, ensure_ascii=False) + "\n").encode())
    page = file.with_suffix(".md")
    before, _, rest = page.read_text().partition(BEGIN)
    text = tables(result, policy, [load_result(folder) for folder in options.beside])
    write_atomically(page, f"{before}{BEGIN}{text}{END}{rest.partition(END)[2]}".encode())


if __name__ == "__main__":
    main()
