"""The measurements of docs/results, as the tables and figures of the pages need them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from benchmarks.measuring import RESULTS, Sizes, facts
from mlgo_gym.evaluation.statistics import Change

HELD_OUT_CXX = (
    *("annoy", "cityhash", "editdistance", "fastcluster", "hnswlib", "levenshtein", "libsass", "marisa-trie"),
    *("python-rapidjson", "pyworld"),
)
"""Held-out projects whose modules are C++. The other ones are C; three modules of python-crfsuite and one of pyroaring
are not."""

_AVERAGED = ("mean", "total", "better", "worse", "train_cpu_seconds", "cpu_seconds", "decisions")

Facts = dict[str, Any]
"""Counts of modules and relative changes, as of `benchmarks.measuring.facts`."""


@cache
def read(name: str) -> Any:
    """Return the content of docs/results/NAME.json."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def percent(change: float) -> str:
    """Return a relative change in per cent with its sign."""
    return f"{change:+.2%}".replace("%", " %").replace("-", "\N{MINUS SIGN}")


def interval(ends: Sequence[float] | None) -> str:
    """Return both ends of an interval in per cent; an empty text without one."""
    return f"[{', '.join(percent(end)[:-2] for end in ends)}]" if ends else ""


def joined(seeds: Sequence[Mapping[str, Any]]) -> Facts:
    """Return the facts of a method: means over its seeds, and the widest of their intervals over projects."""
    means, intervals = [seed["mean"] for seed in seeds], [seed["interval"] for seed in seeds]
    return {
        **seeds[0],
        "seeds": len(seeds),
        "interval": (min(low for low, _ in intervals), max(high for _, high in intervals)) if all(intervals) else None,
        "range": (min(means), max(means)) if len(seeds) > 1 else None,
        **{key: sum(seed[key] for seed in seeds) / len(seeds) for key in _AVERAGED if key in seeds[0]},
    }


@cache
def benchmark(
    level: str, language: str = "", modules: Iterable[str] = (), against: str = ""
) -> dict[tuple[str, int], Facts]:
    """Return the facts of the methods of a level by name and compiles.

    Args:
        level: `Oz` or `Os`.
        language: the language of the modules. Default: all.
        modules: names of modules. Default: all.
        against: method whose sizes are those before, in place of plain clang's.
    """
    known = read("benchmark")["levels"][level]["modules"]
    wanted = {name for name in modules or known if language in ("", known[name][1])}
    rows = [row for row in read("benchmark")["rows"] if row["level"] == level]
    base = next((row["sizes"] for row in rows if row["name"] == against), {name: known[name][2] for name in known})
    seeds: dict[tuple[str, int], list[Facts]] = {}
    for row in rows:
        names = [name for name in row["sizes"] if name in wanted]
        found = facts([(row["sizes"][name], base[name]) for name in names], [known[name][0] for name in names])
        seeds.setdefault((row["name"], row["compiles"]), []).append({**row, **found})
    return {key: joined(rows) for key, rows in seeds.items()}


@cache
def run_time() -> dict[str, Facts]:
    """Return size and run time of the held-out programs by build.

    Changes are of the geometric mean over programs, against plain clang at -Oz, and `own` against plain clang at the
    level of the build.
    """
    programs = read("run_time")["programs"]
    builds = {name: program["builds"] for name, program in programs.items() if program["held_out"]}
    names = dict.fromkeys(build for of_program in builds.values() for build in of_program)
    return {build: _run_time({name: each for name, each in builds.items() if build in each}, build) for build in names}


def _run_time(programs: Mapping[str, Mapping[str, Any]], build: str) -> Facts:
    def against(base: str, key: str) -> Change:
        return Change(tuple((builds[build][key], builds[base][key]) for builds in programs.values()))

    own = against(build.partition(" ")[0], "instructions")
    changes = {"instructions": against("Oz", "instructions"), "own": own}
    ratios = [builds[build].get("time_ratio") for builds in programs.values()]
    if None not in ratios:
        # The median ratio of each program, in millionths: `Change` adds 1 to each number.
        changes["time"] = Change(tuple((ratio * 1e6, 1e6) for ratio in ratios))
    worst, name = max((value / base - 1, name) for (value, base), name in zip(own.pairs, programs, strict=True))
    return {
        "programs": len(programs),
        "size": against("Oz", "size").mean,
        **{key: (change.mean, change.estimate.interval) for key, change in changes.items()},
        "worst": (name, worst),
    }


@cache
def held_out(part: str, level: str) -> dict[str, Sizes]:
    """Return the sizes of each module by policy, on a set of held-out projects."""
    return {
        name: {module: (now, before) for module, (now, before) in zip(row["modules"], row["sizes"], strict=True)}
        for name, row in read("held_out")[part].get(level, {}).items()
    }


def held_out_facts(part: str, level: str, policy: str, other: str = "") -> Facts:
    """Return the facts of a policy against plain clang, or against another policy, over projects."""
    sizes = held_out(part, level)
    pairs = sizes[policy]
    if other:
        pairs = {name: (now, sizes[other][name][0]) for name, (now, _) in pairs.items() if name in sizes[other]}
    row = read("held_out")[part][level][policy]
    projects = dict(zip(row["modules"], row["projects"], strict=True))
    return facts(list(pairs.values()), [projects[name] for name in pairs])


@cache
def held_out_changes(part: str, level: str, policy: str) -> dict[str, Change]:
    """Return the change of each project of a set of held-out modules, against plain clang, by name."""
    pairs = held_out(part, level)[policy]
    sizes: dict[str, list[tuple[float, float]]] = {}
    for project, pair in zip(read("held_out")[part][level][policy]["projects"], pairs.values(), strict=True):
        sizes.setdefault(project, []).append(pair)
    return {project: Change(tuple(changes)) for project, changes in sorted(sizes.items())}


def held_out_projects(language: str, level: str, policy: str) -> dict[str, Change]:
    """Return the change of each project of a language in `six` and `others`, against plain clang, by name."""
    projects = held_out_changes("six", level, policy) | held_out_changes("others", level, policy)
    cxx = language == "C++"
    return {name: change for name, change in sorted(projects.items()) if (name in HELD_OUT_CXX) == cxx}


def opened_projects(*sets: str) -> Callable[[str, str, str], dict[str, Change]]:
    """Return a function like `held_out_projects`, for the sets that `benchmarks.held_out.CHOICES` names."""

    def projects(language: str, level: str, policy: str) -> dict[str, Change]:
        found = [held_out_changes(f"{name} {language}", level, policy) for name in sets]
        return dict(sorted((project, change) for changes in found for project, change in changes.items()))

    return projects
