"""From the results of docs/benchmark.md's rows to JSON, and from JSON to its tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.reference_rows import ALL, MADE_OF, ORACLE, SMALLEST, THRESHOLDS, Row, Search
from mlgo_gym import __version__
from mlgo_gym.evaluation.episode_result import DONE
from mlgo_gym.evaluation.intervals import estimates
from mlgo_gym.evaluation.protocol import SEARCH_BUDGETS, VERSION
from mlgo_gym.evaluation.result import load_result
from mlgo_gym.evaluation.summary import Change
from mlgo_gym.search.search_result import SearchResult
from mlgo_gym.storage.json_lines import read_json_lines

Sizes = dict[str, tuple[float, float]]
"""The bytes of each module, and plain clang's."""

Done = tuple[Row | Search, str, int, Path, Path]
"""A row, its level and seed, the results, and the file that says by which commands they came."""


def gather(done: Iterable[Done], searched: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the results of all rows as JSON-able data; each row has a size for each of `modules`, or null.

    Args:
        done: the rows that are finished.
        searched: for each level the modules of the searches.
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
                wrong = len(searched[level]) - sum(each.verified for each in results)
                rows.append(
                    {**facts, "compiles": budget, "failures": wrong, "search": True, **_figures(sizes, projects)}
                )
            continue
        result = load_result(path)
        clang = result.configuration.clang
        there = [each for each in result.episodes if each.status == DONE]
        projects |= {each.module: each.project for each in there}
        sizes = {each.module: each.measures["text_size"] for each in there}
        baselines[level] |= {name: before for name, (_, before) in sizes.items()}
        failed = [each.module for each in result.failures]
        sizes |= {name: (baselines[level][name],) * 2 for name in failed if name in baselines[level]}
        if not row.train and row.seeds == 1:
            by_policy[level][row.policy] = sizes
        seconds = round(sum(each.seconds for each in there), 1)
        part = {name: sizes[name] for name in searched.get(level, ()) if name in sizes}
        rows.append(
            {
                **facts,
                "budget": row.budget,
                "failures": len(failed),
                "compile_seconds": seconds,
                **_figures(sizes, projects),
            }
            | {"searched": _figures(part, projects) if part else None}
        )
    for level, found in by_policy.items():
        parts = {ORACLE: tuple(policy for policy in found if policy.startswith(THRESHOLDS)), **MADE_OF}
        for name, policies in parts.items():
            if not policies or not found.keys() >= set(policies):
                continue
            best = _smallest([found[policy] for policy in policies])
            part = {module: best[module] for module in searched.get(level, ()) if module in best}
            rows.append(
                {"level": level, "name": name, "seed": 0, "failures": 0, "of": len(policies)}
                | _figures(best, projects)
                | {"searched": _figures(part, projects) if part else None}
            )
    names = {level: sorted(before) for level, before in baselines.items()}
    for each in rows:
        each["sizes"] = [each["sizes"].get(name) for name in names[each["level"]]]
    sizes_of_clang = {level: [baselines[level][name] for name in names[level]] for level in ALL}
    facts = {
        "protocol": VERSION,
        "mlgo_gym": __version__,
        "clang": clang,
        "modules": names,
        "clang_sizes": sizes_of_clang,
    }
    return {**facts, "searched": searched, "rows": rows}


def _smallest(candidates: Sequence[Sizes]) -> Sizes:
    """Return the smallest size of each module, which plain clang's is never above."""
    return {
        name: (min(before, *(sizes[name][0] for sizes in candidates)), before)
        for name, (_, before) in candidates[0].items()
    }


def _figures(sizes: Sizes, projects: Mapping[str, str]) -> dict[str, Any]:
    names = sorted(sizes)
    change = Change(tuple(sizes[name] for name in names), tuple(projects[name] for name in names))
    return {
        "modules": len(sizes),
        "mean": change.mean,
        "interval": estimates(change).mean.interval,
        "total": change.total,
        "better": change.better,
        "worse": change.worse,
        "sizes": {name: int(size) for name, (size, _) in sizes.items()},
    }


def tables(data: dict[str, Any]) -> str:
    """Return the tables in Markdown, with the commands below them."""
    lines = [f"clang {data['clang']}, protocol {data['protocol']}."]
    for level in ALL:
        rows = [row for row in data["rows"] if row["level"] == level]
        policies = _by_name(row for row in rows if not row.get("search"))
        searches = _by_name(row for row in rows if row.get("search"))
        if policies:
            modules = max(each[0]["modules"] for each in policies.values())
            lines += ["", f"### -{level}: policies, {modules} modules", "", *_heading()]
            ordered = sorted(policies.items(), key=lambda item: _mean(item[1]))
            lines += [_line(name, seeds) for (name, _), seeds in ordered]
        if searches:
            modules = max(each[0]["modules"] for each in searches.values())
            lines += ["", f"### -{level}: searches, {modules} modules", "", *_heading()]
            beside = {
                key: [{**seed, **seed["searched"]} for seed in seeds]
                for key, seeds in policies.items()
                if all(seed.get("searched") for seed in seeds) and key[0] in _BESIDE
            }
            ordered = sorted((searches | beside).items(), key=lambda item: _mean(item[1]))
            lines += [
                _line(f"{name}{f', {number} compiles' * bool(number)}", seeds) for (name, number), seeds in ordered
            ]
    lines += ["", "### Commands", "", *_commands(data["rows"])]
    return "\n".join(lines) + "\n"


_BESIDE = (
    *("policy in the box", "policy in the box, clang's features alone", SMALLEST),
    *("`threshold:0`", "`threshold:5`: clang's own at -Oz"),
)
"""The policies that the tables of searches show too, on the modules of the searches."""

_KEY = tuple[str, int]


def _by_name(rows: Iterable[dict[str, Any]]) -> dict[_KEY, list[dict[str, Any]]]:
    found: dict[_KEY, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["name"], row.get("compiles", 0)), []).append(row)
    return found


def _heading() -> list[str]:
    return [
        "| method | geometric mean | 95 % interval, or of the seeds | total | smaller | larger | failed |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]


def _mean(seeds: Sequence[Mapping[str, Any]]) -> float:
    return float(sum(seed["mean"] for seed in seeds) / len(seeds))


def _line(name: str, seeds: Sequence[Mapping[str, Any]]) -> str:
    if len(seeds) > 1:
        means = sorted(seed["mean"] for seed in seeds)
        spread = f"{_percent(means[0])} to {_percent(means[-1])}, {len(seeds)} seeds"
    else:
        spread = " to ".join(map(_percent, seeds[0]["interval"] or (0.0, 0.0)))
    cells = [_percent(_mean(seeds)), spread, _percent(sum(seed["total"] for seed in seeds) / len(seeds))]
    cells += ["/".join(str(seed[key]) for seed in seeds) for key in ("better", "worse", "failures")]
    return f"| {name} | {' | '.join(cells)} |"


def _percent(value: float) -> str:
    return f"{100 * value:+.2f} %".replace("-", "\N{MINUS SIGN}")


def _commands(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each method: what trains it, and what is evaluated or searched, at one level with one seed."""
    lines: dict[str, str] = {}
    for row in rows:
        if "command" not in row or row["name"] in lines:
            continue
        words = row["command"].split()
        shown = {"--policy", "--algorithm", "--start", "--compiles", "--seed"}
        chosen = " ".join(f"{key} {words[place + 1]}" for place, key in enumerate(words) if key in shown)
        what = f"`mlgo-gym {words[1]} … {chosen}`"
        train = f"`{row['train']}`, then " if row.get("train") else ""
        lines[row["name"]] = f"- {row['name']} (at -{row['level']}): {train}{what}"
    return list(lines.values())
