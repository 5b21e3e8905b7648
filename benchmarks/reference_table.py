"""Collects the results of the rows of docs/results/benchmark.md as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.reference_rows import ALL, ORACLE, SMALLEST_OF, THRESHOLDS, Row, Search
from mlgo_gym import __version__
from mlgo_gym.evaluation.protocol import SEARCH_BUDGETS, VERSION
from mlgo_gym.evaluation.record import DONE
from mlgo_gym.evaluation.result_folder import load_result
from mlgo_gym.evaluation.search_result import SearchResult
from mlgo_gym.evaluation.statistics import Change, estimates
from mlgo_gym.policies.network import Network
from mlgo_gym.storage.json_lines import read_json_lines
from mlgo_gym.tasks.reward import worst_cost

Sizes = dict[str, tuple[float, float]]
"""Bytes of each module, and bytes by plain clang."""

Done = tuple[Row | Search, str, int, Path, Path]
"""A row, its level and seed, its results, and the file of its commands."""


def gather(done: Iterable[Done], searched: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the results as JSON-able data; each row has the size of each of `modules`, or null.

    Args:
        done: the finished rows.
        searched: modules of the searches of each level.
    """
    rows: list[dict[str, Any]] = []
    baselines: dict[str, dict[str, float]] = {level: {} for level in ALL}
    by_policy: dict[str, dict[str, Sizes]] = {level: {} for level in ALL}
    projects: dict[str, str] = {}
    clang = ""
    for row, level, seed, path, complete in done:
        facts = {"level": level, "name": row.name, "seed": seed, **json.loads(complete.read_text())}
        if isinstance(row, Search):
            results = [SearchResult.from_json(value) for _, value in list(read_json_lines(path))[1:]]
            projects = {each.module: each.module.partition("/")[0] for each in results} | projects
            for budget in SEARCH_BUDGETS:
                sizes = {each.module: (each.cost_after(budget), each.baseline) for each in results if not each.error}
                failures = len(searched[level]) - sum(each.verified for each in results)
                row_facts = {**facts, "compiles": budget, "failures": failures, "search": True}
                rows.append({**row_facts, **_figures(sizes, projects)})
            continue
        result = load_result(path)
        clang = result.configuration.clang
        episodes = [each for each in result.episodes if each.status == DONE]
        projects |= {each.module: each.project for each in episodes}
        sizes = {each.module: each.metrics["text"] for each in episodes}
        baselines[level] |= {name: before for name, (_, before) in sizes.items()}
        failed = [each.module for each in result.failures]
        sizes |= {name: (worst_cost(before), before) for name, before in baselines[level].items() if name in failed}
        if not row.train and row.seeds == 1:
            by_policy[level][row.policy] = sizes
        seconds = round(sum(each.seconds for each in episodes), 1)
        part = {name: sizes[name] for name in searched.get(level, ()) if name in sizes}
        facts = {"budget": row.budget, **facts, "failures": len(failed), "compile_seconds": seconds}
        rows.append({**facts, **_figures(sizes, projects), "searched": _figures(part, projects) if part else None})
    for level, found in by_policy.items():
        parts = {ORACLE: tuple(policy for policy in found if policy.startswith(THRESHOLDS)), **SMALLEST_OF}
        for name, policies in parts.items():
            if not policies or not found.keys() >= set(policies):
                continue
            best = smallest_sizes([found[policy] for policy in policies])
            part = {module: best[module] for module in searched.get(level, ()) if module in best}
            facts = {"level": level, "name": name, "seed": 0, "failures": 0, "of": len(policies)}
            rows.append({**facts, **_figures(best, projects), "searched": _figures(part, projects) if part else None})
    names = {level: sorted(before) for level, before in baselines.items()}
    for each in rows:
        each["sizes"] = [each["sizes"].get(name) for name in names[each["level"]]]
    sizes_of_clang = {level: [baselines[level][name] for name in names[level]] for level in ALL}
    versions = {"protocol": VERSION, "mlgo_gym": __version__, "clang": clang}
    return {**versions, "modules": names, "clang_sizes": sizes_of_clang, "searched": searched, "rows": rows}


def add_rows(known: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return earlier results with new rows, which replace earlier ones of the same level, method, seed and compiles.

    Raises:
        SystemExit: the modules or their sizes by plain clang differ.
    """
    joined = {**found, "modules": {}, "clang_sizes": {}}
    for level in ALL:
        new, old = ([each[key].get(level) for key in ("modules", "clang_sizes")] for each in (found, known))
        if new[0] and old[0] and new != old:
            raise SystemExit(f"expected the modules of the earlier rows at -{level}, got others; delete these rows")
        joined["modules"][level], joined["clang_sizes"][level] = new if new[0] else old
    keys = [tuple(row.get(name) for name in ("level", "name", "seed", "compiles")) for row in found["rows"]]
    kept = [
        row
        for row in known["rows"]
        if tuple(row.get(name) for name in ("level", "name", "seed", "compiles")) not in keys
    ]
    return {**joined, "searched": {**known["searched"], **found["searched"]}, "rows": [*kept, *found["rows"]]}


def weights_of(file: Path) -> int:
    """Return the number of weights and biases of a network's file."""
    network = Network.load(file)
    return sum(part.size for part in (*network.weights, *network.biases))


def smallest_sizes(candidates: Sequence[Sizes]) -> Sizes:
    """Return the smallest size of each module that all candidates have, plain clang's included."""
    common = [name for name in candidates[0] if all(name in sizes for sizes in candidates)]
    return {name: (min(min(sizes[name]) for sizes in candidates), candidates[0][name][1]) for name in common}


def _figures(sizes: Sizes, projects: Mapping[str, str]) -> dict[str, Any]:
    names = sorted(sizes)
    change = Change(tuple(sizes[name] for name in names), tuple(projects[name] for name in names))
    return {**facts_of(change), "sizes": {name: int(size) for name, (size, _) in sizes.items()}}


def facts_of(change: Change) -> dict[str, Any]:
    """Return the statistics of a change for a row: counts of modules, relative changes, and an interval or None."""
    return {
        "modules": len(change.pairs),
        "mean": change.mean,
        "interval": estimates(change).mean.interval,
        "total": change.total,
        "better": change.better,
        "worse": change.worse,
    }
