"""The measurements of docs/results, as the tables and figures of the pages need them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from benchmarks.held_out import RULES
from benchmarks.measuring import RESULTS, Sizes, facts
from mlgo_gym.evaluation.statistics import Change

CXX_PROJECTS = ("box2d-py", "fasttext", "jsonnet", "lightgbm", "pyclipper", "pysimdjson", "sentencepiece", "ujson")
CXX_PARTS = ("builtin/cpp/", "snappy/quad_double/")
"""Projects of the benchmark, and parts of projects, whose modules in the test split are C++; all others are C."""

HELD_OUT_CXX = (
    *("annoy", "cityhash", "editdistance", "fastcluster", "hnswlib", "levenshtein", "libsass", "marisa-trie"),
    *("python-rapidjson", "pyworld"),
)
"""Held-out projects whose modules are C++. The other ones are C; three modules of python-crfsuite and one of pyroaring
are not."""

_AVERAGED = ("mean", "total", "better", "worse", "train_cpu_seconds")

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
def benchmark(level: str) -> dict[tuple[str, int], Facts]:
    """Return the methods of a level, `Oz` or `Os`: name and compiles of a search (else 0), facts."""
    seeds: dict[tuple[str, int], list[Facts]] = {}
    for row in read("benchmark")["rows"]:
        if row["level"] == level:
            seeds.setdefault((row["name"], row.get("compiles", 0)), []).append(row)
    return {key: joined(rows) for key, rows in seeds.items()}


def searched(level: str, name: str) -> Facts:
    """Return the facts of a method that is no search for the modules of the searches."""
    rows = [row for row in read("benchmark")["rows"] if (row["level"], row["name"]) == (level, name)]
    return joined([row["searched"] for row in rows])


def sizes_of(level: str, name: str) -> Sizes:
    """Return each module of a method's first seed, with its bytes and those by plain clang."""
    data = read("benchmark")
    modules = [module.replace(f"@{level}", "", 1) for module in data["modules"][level]]
    rows = zip(modules, benchmark(level)[name, 0]["sizes"], data["clang_sizes"][level], strict=True)
    return {module: (now, before) for module, now, before in rows if now}


def project_of(module: str) -> str:
    """Return the project of a module of the benchmark, which means weigh equally."""
    return "/".join(module.split("/")[: 1 + module.startswith("builtin/")])


@cache
def by_language(level: str, name: str, *, cxx: bool) -> Facts:
    """Return the facts of a method's first seed for the modules in C++, or for those in C."""
    sizes = sizes_of(level, name)
    in_cxx = {module for module in sizes if module.split("/")[0] in CXX_PROJECTS or module.startswith(CXX_PARTS)}
    return facts_of({module: pair for module, pair in sizes.items() if (module in in_cxx) == cxx})


def facts_of(sizes: Sizes) -> Facts:
    """Return the facts of modules, over projects."""
    return facts(list(sizes.values()), [project_of(module) for module in sizes])


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
    """Return the sizes of each module by policy, on a set of held-out projects or on the test split (`test`)."""
    if part == "test":
        return {name: sizes_of(level, f"`{name}`") for name in RULES}
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
    if part == "test":
        return facts_of(pairs)
    row = read("held_out")[part][level][policy]
    projects = dict(zip(row["modules"], row["projects"], strict=True))
    return facts(list(pairs.values()), [projects[name] for name in pairs])


@cache
def held_out_changes(part: str, level: str, policy: str) -> dict[str, Change]:
    """Return the change of each project of a set of held-out modules, against plain clang, by name."""
    pairs = held_out(part, level)[policy]
    names = map(project_of, pairs) if part == "test" else read("held_out")[part][level][policy]["projects"]
    sizes: dict[str, list[tuple[float, float]]] = {}
    for project, pair in zip(names, pairs.values(), strict=True):
        sizes.setdefault(project, []).append(pair)
    return {project: Change(tuple(changes)) for project, changes in sorted(sizes.items())}


def held_out_projects(level: str, policy: str, *, cxx: bool) -> dict[str, Change]:
    """Return the change of each held-out project of a language, against plain clang, by name."""
    projects = held_out_changes("six", level, policy) | held_out_changes("others", level, policy)
    return {name: change for name, change in sorted(projects.items()) if (name in HELD_OUT_CXX) == cxx}
