"""Named measurements of the pages, looked up in JSON files.

A name is a path: a source, then keys, joined by dots. Keys are written in lower case, with `-` for each character that
is neither a letter nor a digit. A number is an index into a list. A format of Python may follow a colon:

    benchmark.oz.inline-oz.mean         geometric mean over the modules of the benchmark
    benchmark.oz.inline-oz.cxx.mean     the same for modules of C++
    benchmark.oz.bundles-50.low:+.1%    lower end of the interval of a search with 50 compiles
    card.inline-oz.worse                the `test` part of a model card
    ten-programs.builds.plugin.text     linked bytes of ten programs by the plugin, against plain clang at -Oz
    build-cost.yaml-cpp-bundled.wrapper CPU time of a build with the wrapper, as a multiple of a plain build
    soak.tally.episodes                 any other source is docs/results/SOURCE.json as it is
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks.reference_table import facts_of
from mlgo_gym.evaluation.statistics import Change, estimates

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
NETWORKS = ROOT / "mlgo_gym" / "policies" / "networks"

METHODS = {
    "bundled policy": "inline-{level}",
    "bundled policy, clang's features only": "inline-{level}-fast",
    "clang's own choices over the channel": "default",
    "`threshold:0`": "threshold-0",
    "`threshold:5`: clang's own at -Oz": "threshold-5",
    "`threshold:20`": "threshold-20",
    "`threshold:50`: clang's own at -Os": "threshold-50",
    "never": "never",
    "always": "always",
    "random": "random",
    "behaviour cloning of clang without its choice as a feature": "clone",
    "evolution from the bundled policy with clang's features": "evolution",
    "best of these thresholds for each module, or clang (oracle)": "best-threshold",
    "search: greedy": "greedy",
    "search: bundles": "bundles",
    "search: bundles, from the bundled policy": "bundles-from-policy",
    "search: beam": "beam",
    "search: hill climbing": "hill-climbing",
    "search: tree (MCTS)": "mcts",
    "search: random": "random-search",
}
"""Name in a path of methods of the benchmark; others have that of their row, such as `smallest-of-five`."""

CXX_PROJECTS = {
    *("box2d-py", "fasttext", "jsonnet", "lightgbm"),
    *("pyclipper", "pysimdjson", "sentencepiece", "ujson"),
}
CXX_PARTS = ("builtin/cpp/", "snappy/quad_double/")
"""Projects of the benchmark, and parts of projects, whose modules in the test split are C++; all others are C."""

CHANGES = {
    *("mean", "low", "high", "total", "geometric-mean", "overhead", "median-overhead", "change"),
    *("text", "file", "instructions", "text-change", "most-larger"),
    *("size-change", "instructions-change", "time-change"),
    *("own-size", "own-instructions", "own-low", "own-high", "worst-change"),
}
"""Keys of relative changes, which are shown as percentages."""


class UnknownNameError(LookupError):
    """No measurement has this name."""


def text(name: str) -> str:
    """Return a measurement as a page shows it.

    Raises:
        UnknownNameError: no source has this path, or it leads to no single value.
    """
    path, _, form = name.partition(":")
    found = value(path)
    if isinstance(found, (dict, list)):
        raise UnknownNameError(f"expected a name of one value, got {name!r}; it has {_keys(found)}")
    return shown(found, form or _format(found, path.rpartition(".")[2]))


def value(path: str) -> Any:
    """Return what lies at a path.

    Raises:
        UnknownNameError: no source has this path.
    """
    first, *keys = path.split(".")
    try:
        found = source(first)
    except FileNotFoundError:
        raise UnknownNameError(f"expected a source of {sorted(SOURCES)} or of docs/results, got {first!r}") from None
    for key in keys:
        if isinstance(found, list) and key.isdigit() and int(key) < len(found):
            found = found[int(key)]
            continue
        by_slug = {slug(each): each for each in found} if isinstance(found, dict) else {}
        if key not in by_slug:
            raise UnknownNameError(f"expected a path, got {path!r}; at {key!r} there are {_keys(found)}")
        found = found[by_slug[key]]
        if callable(found):
            found = found()
    return found


def shown(found: Any, form: str) -> str:
    """Return a value in a format of Python, with a minus sign and a space before the per cent sign."""
    written = format(found, form).replace("%", " %")
    return re.sub(r"^-", "\N{MINUS SIGN}", written)


def percent(change: float, digits: int = 2) -> str:
    """Return a relative change with its sign."""
    return shown(change, f"+.{digits}%")


def interval(low: float, high: float) -> str:
    """Return both ends of an interval in per cent, with their signs."""
    return f"[{percent(low)[:-2]}, {percent(high)[:-2]}]"


def slug(key: str) -> str:
    """Return a key as it is written in a path."""
    return re.sub(r"[^a-z0-9]+", "-", key.lower()).strip("-")


@cache
def source(name: str) -> Any:
    """Return the data of a source."""
    if name in SOURCES:
        return SOURCES[name]()
    return read(next((path for path in RESULTS.glob("*.json") if slug(path.stem) == name), RESULTS / f"{name}.json"))


@cache
def read(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def benchmark() -> dict[str, Any]:
    """Return the figures of the benchmark: level, method, figure."""
    return {level.lower(): _methods(level) for level in ("Oz", "Os")}


def _methods(level: str) -> dict[str, Any]:
    seeds: dict[str, list[dict[str, Any]]] = {}
    for row in read(RESULTS / "benchmark.json")["rows"]:
        if row["level"] == level:
            seeds.setdefault(method(row), []).append(row)
    return {
        name: {**figures(rows), **{key: partial(by_language, level, name, key) for key in ("c", "cxx")}}
        for name, rows in seeds.items()
    }


@cache
def by_language(level: str, name: str, language: str) -> dict[str, Any]:
    """Return the figures of a method's first seed for the modules of one language, `c` or `cxx`."""
    return change_of([each for each in sizes_of(level, name) if is_cxx(each[0]) == (language == "cxx")])


def sizes_of(level: str, name: str) -> list[tuple[str, float, float]]:
    """Return each module of a method's first seed, with its bytes and those by plain clang."""
    data = read(RESULTS / "benchmark.json")
    row = next(row for row in data["rows"] if row["level"] == level and method(row) == name)
    modules = [module.replace(f"@{level}", "", 1) for module in data["modules"][level]]
    sizes = zip(modules, row["sizes"], data["clang_sizes"][level], strict=True)
    return [(module, now, before) for module, now, before in sizes if now]


def project(module: str) -> str:
    """Return the project of a module of the benchmark, by which intervals resample."""
    return "/".join(module.split("/")[: 1 + module.startswith("builtin/")])


def change_of(sizes: Sequence[tuple[str, float, float]]) -> dict[str, Any]:
    """Return the figures of modules, given as name, bytes and bytes by plain clang; intervals resample projects."""
    projects = tuple(project(module) for module, _, _ in sizes)
    return figures([facts_of(Change(tuple((now, before) for _, now, before in sizes), projects))])


def is_cxx(module: str) -> bool:
    """Return whether a module of the benchmark is C++."""
    return module.partition("/")[0] in CXX_PROJECTS or module.startswith(CXX_PARTS)


def method(row: Mapping[str, Any]) -> str:
    """Return the name in a path of a row of the benchmark."""
    name = row["name"]
    found = METHODS.get(name) or slug(name.partition(":")[0])
    compiles = f"-{row['compiles']}" if row.get("compiles") else ""
    return found.format(level=row["level"].lower()) + compiles


def figures(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of a method: means over its seeds; ends of an interval, or least and most of the seeds."""
    seeds = list(rows)
    means = [row["mean"] for row in seeds]
    low, high = (seeds[0]["interval"] or (means[0],) * 2) if len(seeds) == 1 else (min(means), max(means))
    found = {
        "modules": seeds[0]["modules"],
        "failed": sum(row.get("failures", 0) for row in seeds),
        "seeds": len(seeds),
        "mean": sum(means) / len(seeds),
        "low": low,
        "high": high,
        "interval": interval(low, high),
        "total": sum(row["total"] for row in seeds) / len(seeds),
        "smaller": round(sum(row["better"] for row in seeds) / len(seeds)),
        "larger": round(sum(row["worse"] for row in seeds) / len(seeds)),
    }
    if all(row.get("searched") for row in seeds):
        found["searched"] = figures([row["searched"] for row in seeds])
    return found


def learning(held_out: str) -> dict[str, Any]:
    """Return the figures of the examples of reinforcement learning on a held-out set: level and method, figure."""
    seeds: dict[str, list[dict[str, Any]]] = {}
    for run in read(RESULTS / "learning.json")["runs"]:
        name, _, title = run["title"].partition(" ")
        if name == held_out:
            seeds.setdefault(title, []).append(run)
    return {
        title: {
            **figures(runs),
            "budget": runs[0].get("budget", ""),
            "cpu-minutes": sum(run.get("cpu_seconds", 0.0) for run in runs) / len(runs) / 60,
            "most-larger": max(run["worse"] / run["modules"] for run in runs),
        }
        for title, runs in seeds.items()
    }


def run_time() -> dict[str, Any]:
    """Return size and run time of programs: group and build, figure.

    Changes are of the geometric mean over programs, against plain clang at -Oz, and `own-` against plain clang at the
    level of the build.
    """
    groups: dict[str, list[dict[str, Any]]] = {"held-out": [], "other": [], "builtin": []}
    found = read(RESULTS / "speed.json")["O2"]["programs"]
    for name, program in read(RESULTS / "run_time.json")["programs"].items():
        group = "builtin" if program["corpus"] == "builtin" else "held-out" if program["held_out"] else "other"
        groups[group].append({"name": name, **program})
        if name in found:
            program["builds"]["O2 search"] = _found(program["builds"]["O2"], found[name])
    every = [program for programs in groups.values() for program in programs]
    counting = sorted(program["counting"] for program in every)
    return {
        **{
            group: {
                slug(build): _run_time([each for each in programs if build in each["builds"]], build)
                for build in dict.fromkeys(build for each in programs for build in each["builds"])
            }
            for group, programs in groups.items()
            if programs
        },
        "counting": {"median": counting[len(counting) // 2]},
        "programs": len(every),
    }


def _found(plain: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the build of a search, which was compared with plain clang at its level."""
    before, after = (record["builds"][name] for name in ("plain", "search"))
    build = {key: plain[key] * after[key] / before[key] for key in ("size", "instructions")}
    return {**build, "time_ratio": plain["time_ratio"] * record["time_ratio"]}


def _run_time(programs: Sequence[Mapping[str, Any]], build: str) -> dict[str, Any]:
    def change_against(base: str, key: str) -> Change:
        return Change(tuple((each["builds"][build][key], each["builds"][base][key]) for each in programs))

    level = build.partition(" ")[0]
    instructions, own = change_against("Oz", "instructions"), change_against(level, "instructions")
    # The median ratio of each program, in millionths: `Change` adds 1 to each number.
    time = Change(tuple((each["builds"][build]["time_ratio"] * 1e6, 1e6) for each in programs))
    interval, time_interval, own_interval = (estimates(each).mean for each in (instructions, time, own))
    worst = max(zip(own.pairs, programs, strict=True), key=lambda pair: pair[0][0] / pair[0][1])
    return {
        "programs": len(programs),
        "size-change": change_against("Oz", "size").mean,
        "instructions-change": instructions.mean,
        "low": interval.low,
        "high": interval.high,
        "time-change": time.mean,
        "time-low": time_interval.low,
        "time-high": time_interval.high,
        "own-size": change_against(level, "size").mean,
        "own-instructions": own.mean,
        "own-low": own_interval.low,
        "own-high": own_interval.high,
        "worst": worst[1]["name"],
        "worst-change": worst[0][0] / worst[0][1] - 1,
    }


def cards() -> dict[str, Any]:
    """Return the `test` part of each model card."""
    return {path.stem: read(path)["test"] for path in sorted(NETWORKS.glob("*.json"))}


def ten_programs() -> dict[str, Any]:
    """Return the ten programs: build, figure; changes are geometric means against plain clang at -Oz."""
    programs = read(RESULTS / "ten_programs.json")
    names = dict.fromkeys(name for row in programs.values() for name in row["variants"])
    return {
        "programs": len(programs),
        "never-trained": sum(not row["trained"] for row in programs.values()),
        "builds": {slug(name): _program_build(programs, name) for name in names},
    }


def _program_build(programs: Mapping[str, Any], name: str) -> dict[str, Any]:
    rows = [row for row in programs.values() if name in row["variants"]]

    def change(key: str, *, trained: bool = True) -> Change:
        chosen = (row["variants"] for row in rows if trained or not row["trained"])
        return Change(tuple((row[name][key], row["Oz"][key]) for row in chosen))

    seconds = [[min(row["variants"][each]["seconds"]) for each in (name, "Oz")] for row in rows]
    return {
        "programs": len(rows),
        **{key: change(key).mean for key in ("text", "file", "instructions")},
        "text-change": change("text").total,
        "never-trained-text": change("text", trained=False).total,
        "larger": change("text").worse,
        "ratio": sum(found for found, _ in seconds) / sum(plain for _, plain in seconds),
        "tests": [tests for row in rows if (tests := row["variants"][name]["tests"]) is not None],
    }


def build_cost() -> dict[str, Any]:
    """Return CPU time as a multiple of a plain build, by build and variant, and milliseconds more of small files."""
    record = read(RESULTS / "build_cost.json")
    found = {"two-compiles": record["two_compiles"]}
    for name, row in record["builds"].items():
        plain, *others = row["seconds"]
        found[name] = {other: min(row["seconds"][other]) / min(row["seconds"][plain]) for other in others}
        more = sorted(1000 * (file[others[-1]] - file[plain]) for file in row["files"].values())
        if more:
            found[name] |= {"files": len(more), "median": more[len(more) // 2], "most": more[-1]}
    return found


def datasets() -> dict[str, Any]:
    """Return the totals of the catalogue, out of its generated page."""
    page = (ROOT / "docs" / "reference" / "datasets.md").read_text(encoding="utf-8")
    found = re.search(
        r"(\d+) datasets, ([\d,]+) modules \(([\d,]+) C, ([\d,]+) C\+\+\), ([\d,]+) lines, in (\d+) min", page
    )
    assert found is not None
    keys = ("count", "modules", "c", "cxx", "lines", "minutes")
    return dict(zip(keys, (int(each.replace(",", "")) for each in found.groups()), strict=True))


def protocol() -> dict[str, Any]:
    """Return the constants of the protocol."""
    from mlgo_gym.evaluation import protocol as rules

    return {"version": rules.VERSION, "datasets": len(rules.DATASETS), "search-modules": rules.SEARCH_MODULES}


SOURCES: dict[str, Callable[[], Any]] = {
    "benchmark": benchmark,
    "build-cost": build_cost,
    "card": cards,
    "datasets": datasets,
    "learning": partial(learning, "packages"),
    "learning-projects": partial(learning, "projects"),
    "protocol": protocol,
    "run-time": run_time,
    "ten-programs": ten_programs,
}


def _format(found: object, key: str) -> str:
    if isinstance(found, float):
        return "+.2%" if key in CHANGES else ",.0f" if found == round(found) or abs(found) >= 1000 else ".3g"
    return "," if isinstance(found, int) and not isinstance(found, bool) else ""


def _keys(found: object) -> str:
    if isinstance(found, dict):
        return ", ".join(slug(key) for key in found)
    return f"{len(found)} entries" if isinstance(found, list) else "no keys"
