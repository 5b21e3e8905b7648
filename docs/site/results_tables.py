"""Tables of the pages in docs/results and of the model cards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from benchmarks.reference_table import weights_of
from docs.site import values
from docs.site.values import percent, source, value
from mlgo_gym.evaluation.statistics import Change, estimates

LEVELS = ("oz", "os")
NAMES = {
    "smallest-of-five": "smallest of five compiles",
    "smallest-of-four": "smallest of four compiles",
    "best-threshold": "best threshold per module (oracle)",
    "default": "`default`: clang's own choices",
    "clone": "behaviour cloning of clang",
    "evolution": "evolution from the fast bundled policy",
    "bundles": "bundles",
    "bundles-from-policy": "bundles, from the bundled policy",
    "hill-climbing": "hill climbing",
    "greedy": "greedy",
    "beam": "beam",
    "mcts": "tree search (MCTS)",
    "random-search": "random",
}
"""Names of methods; all others are policies, named as in a command."""

EVICTION_LEVELS = ("O2", "Os")

_EVICTIONS = {"default": "`default`", "ratio:1.25": "`ratio:1.25`", "evict": "`evict`"}
_GUARDS = {"change": "", "best_of_two": ", best of two"}

SEARCHES = ("bundles-from-policy", "bundles", "hill-climbing", "greedy", "random-search", "beam", "mcts")
MAX_LARGER = 10
"""Number of modules in a card's table of larger ones."""


def name_of(method: str) -> str:
    """Return the name of a method in a table."""
    return NAMES.get(method) or f"`{method.replace('threshold-', 'threshold:')}`"


def policies(level: str) -> Iterator[list[str]]:
    """Yield the rows of the benchmark that are no searches, the smallest code first."""
    heading = ["method", "compiles", "geometric mean", "95 % interval", "total", "smaller", "larger", "weights"]
    yield [*heading, "training, seeds"]
    found = value(f"benchmark.{level}").items()
    rows = [
        (each["mean"], name, each)
        for name, each in found
        if each["modules"] > value(f"benchmark.{level}.mcts-10.modules")
    ]
    facts = {values.method(row): row for row in _rows(level)}
    for _, name, each in sorted(rows, key=lambda row: row[:2]):
        row = facts[name]
        minutes = f", {row['train_cpu_seconds'] / 60:.0f} CPU minutes" if row.get("train_cpu_seconds") else ""
        training = f"{row['budget']}{minutes}, {each['seeds']}" if row.get("budget") else ""
        if not training and each["seeds"] > 1:
            training = f"{each['seeds']} seeds"
        counts = [f"{each[key]:.0f}" for key in ("smaller", "larger")]
        title = name_of(name) if row["name"] in values.METHODS or "of" in row else row["name"]
        cells = [percent(each["mean"]), each["interval"], percent(each["total"]), *counts]
        yield [title, str(row.get("of", 1)), *cells, _weights(name, row), training]


def _weights(name: str, row: Mapping[str, Any]) -> str:
    """Return the number of weights of a row's network; empty without one."""
    file = values.NETWORKS / f"{name}.safetensors"
    count = weights_of(file) if file.exists() else row.get("weights")
    return f"{count:,}" if count else ""


def searches() -> Iterator[list[str]]:
    """Yield the searches of both levels, and policies on the same modules."""
    yield ["method", "compiles", "-Oz", "95 % interval", "larger", "-Os", "95 % interval", "larger"]
    rows = []
    for compiles in (50, 10):
        rows += [
            (name, compiles, [value(f"benchmark.{level}.{name}-{compiles}") for level in LEVELS]) for name in SEARCHES
        ]
    for name, compiles in (("inline-{}", 1), ("inline-{}-fast", 1), ("smallest-of-four", 4)):
        rows.append((name, compiles, [value(f"benchmark.{level}.{name.format(level)}.searched") for level in LEVELS]))
    for name, compiles, pair in sorted(rows, key=lambda row: row[2][0]["mean"]):
        cells = [[percent(each["mean"]), each["interval"], f"{each['larger']:.0f}"] for each in pair]
        shown = " or ".join(name_of(name.format(level)) for level in LEVELS) if "{" in name else name_of(name)
        yield [shown, str(compiles), *cells[0], *cells[1]]


def bundled() -> Iterator[list[str]]:
    """Yield the bundled policies on the test split, by language."""
    yield ["policy", "level", "all", "95 % interval", "larger", "C", "C++"]
    for level in LEVELS:
        for name in (
            f"inline-{level}",
            f"inline-{level}-fast",
            "threshold-5" if level == "os" else "threshold-0",
            "smallest-of-five",
        ):
            each = value(f"benchmark.{level}.{name}")
            parts = [percent(value(f"benchmark.{level}.{name}.{language}.mean")) for language in ("c", "cxx")]
            yield [
                name_of(name),
                f"-O{level[1]}",
                percent(each["mean"]),
                each["interval"],
                f"{each['larger']:.0f}",
                *parts,
            ]


def card_policies(card: str) -> Iterator[list[str]]:
    """Yield a bundled policy and what it is compared with."""
    level = card.split("-")[1]
    yield ["policy", "geometric mean", "95 % interval", "total", "smaller", "larger"]
    others = [
        f"inline-{level}",
        f"inline-{level}-fast",
        *(["threshold-5"] if level == "os" else []),
        "threshold-0",
        "default",
    ]
    for name in sorted(others, key=lambda other: other != card):
        each = value(f"benchmark.{level}.{name}")
        counts = [f"{each[key]:.0f}" for key in ("smaller", "larger")]
        yield [
            f"`{name.replace('threshold-', 'threshold:')}`",
            percent(each["mean"]),
            each["interval"],
            percent(each["total"]),
            *counts,
        ]


def card_projects(card: str) -> Iterator[list[str]]:
    """Yield the projects of the test split."""
    yield ["project", "modules", "geometric mean", "total"]
    for project, each in card_facts(card)["projects"].items():
        yield [project, str(each["modules"]), percent(each["geometric_mean"]), percent(each["total"])]


def card_larger(card: str) -> Iterator[list[str]]:
    """Yield the modules that a policy makes larger, the largest change first."""
    yield ["module", "clang", f"`{card}`", "change"]
    grown = [(now / before - 1, module, before, now) for module, now, before in _sizes(card) if now > before]
    for change, module, before, now in sorted(grown, reverse=True)[:MAX_LARGER]:
        yield [f"`{module}`", f"{before:,.0f}", f"{now:,.0f}", percent(change)]


def card_facts(card: str) -> dict[str, Any]:
    """Return the `test` part of a model card; most have that of held-out crates or modules.

    That of evictions is of the better code of each function, at -O2.
    """
    _, _, name = card.partition("-")
    level, _, target = name.partition("-")
    found = None
    if card == "evict":
        row = source("evictions")["summary"]["O2"][card]["best_of_two"]
        found = {**row, "mean": row["geometric_mean"]}
    elif target == "rust":
        found = source("rust-policies")[level][card]
    elif target:
        found = source("targets")["changes"].get(f"{target} {level.title()} {card}", {}).get("objects")
    if found:
        facts = {key: found[key] for key in ("modules", "interval", "total", "better", "worse")}
        equal = facts["modules"] - facts["better"] - facts["worse"]
        return {**facts, "equal": equal, "geometric_mean": found["mean"]}
    sizes = _sizes(card)
    every = values.change_of(sizes)
    over_modules = estimates(Change(tuple((now, before) for _, now, before in sizes))).mean.interval
    projects = {}
    for project in sorted({values.project(module) for module, _, _ in sizes}):
        part = values.change_of([each for each in sizes if values.project(each[0]) == project])
        facts = {"modules": part["modules"], "geometric_mean": part["mean"], "total": part["total"]}
        projects[project.rpartition("/")[2]] = facts
    return {
        "modules": every["modules"],
        "geometric_mean": every["mean"],
        "interval": list(over_modules or ()),
        "interval_by_project": [every["low"], every["high"]],
        "total": every["total"],
        "better": every["smaller"],
        "worse": every["larger"],
        "equal": every["modules"] - every["smaller"] - every["larger"],
        "projects": projects,
    }


def _sizes(card: str) -> list[tuple[str, float, float]]:
    return values.sizes_of(f"O{card.split('-')[1][1]}", card)


def _rows(level: str) -> Iterable[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = values.read(values.RESULTS / "benchmark.json")["rows"]
    return [row for row in rows if row["level"].lower() == level]


def throughput() -> Iterator[list[str]]:
    """Yield the vector environments with equal seeds."""
    yield ["four environments", "decisions per second", "against AsyncVectorEnv"]
    for name, each in value("vector-throughput.equal-seeds.rows").items():
        yield [
            name,
            f"{each['steps_per_second']:,.0f}",
            f"{each['times_async_vector_env']:.2f} \N{MULTIPLICATION SIGN}",
        ]


def forks() -> Iterator[list[str]]:
    """Yield the time of a fork at an inlining decision, by resident memory."""
    yield ["resident, MiB", "fork, ms", "start of a process, ms", "replay, ms"]
    for each in value("fork.times"):
        if each["role"] == "inlining" and each["resident_mib"] > 56:
            times = [each["fork_median_ms"], each["start_median_ms"]]
            yield [
                f"{each['resident_mib']:.0f}",
                *(f"{time:.1f}" for time in times),
                f"{each['replay_median_ms']:,.0f}",
            ]


def algorithms() -> Iterator[list[str]]:
    """Yield the searches of five modules of the packaged corpus."""
    yield ["search", "50 compiles", "200 compiles"]
    for each in value("search-algorithms.gains"):
        yield [f"`{each['algorithm']}`", *(percent(budget["geometric_mean"], 1) for budget in each["budgets"])]


def from_policy() -> Iterator[list[str]]:
    """Yield the search from `inline-oz` by number of compiles."""
    modules = value("search-from-policy-200.modules")
    yield ["compiles", "geometric mean", "95 % interval", "total", "smaller", "larger"]
    for compiles in (1, 10, 50, 200):
        sizes = [(each["module"], _cost_after(each, compiles), each["baseline"]) for each in modules]
        found = values.change_of(sizes)
        counts = [str(found[key]) for key in ("smaller", "larger")]
        yield [str(compiles), percent(found["mean"]), found["interval"], percent(found["total"]), *counts]


def _cost_after(result: Mapping[str, Any], compiles: int) -> float:
    """Return the least bytes of a search after a number of compiles."""
    costs = (cost for number, cost in result["improvements"] if number <= compiles)
    return float(min([result["baseline"], *costs]))


def learning(held_out: str) -> Iterator[list[str]]:
    """Yield the examples of reinforcement learning and the policies beside them, on a set of held-out projects."""
    yield [
        "level",
        "policy",
        "training",
        "CPU minutes",
        "seeds",
        "modules",
        "geometric mean",
        "interval",
        "total",
        "larger",
    ]
    for name, each in sorted(source(held_out).items(), key=lambda item: (item[0][:2], item[1]["mean"])):
        level, _, title = name.partition(" ")
        title = title if each["budget"] else f"`{title}`"
        training = [each["budget"], f"{each['cpu-minutes']:.1f}", str(each["seeds"])] if each["budget"] else [""] * 3
        figures = [str(each["modules"]), percent(each["mean"]), each["interval"], percent(each["total"])]
        yield [f"`-{level}`", title, *training, *figures, values.shown(each["most-larger"], ".1%")]


BUILDS = (
    *("O2", "O2 search", "Os", "Os threshold:5", "Os inline-os-fast", "Os inline-os"),
    *("Oz", "Oz inline-oz-fast", "Oz inline-oz"),
)
"""Builds of programs, in the order of the table."""


def run_time(group: str) -> Iterator[list[str]]:
    """Yield size and run time of the programs of a group, a row for each build."""
    yield ["build", "size", "instructions", "wall time", "instructions, same level", "worst program"]
    for build in BUILDS:
        each = source("run-time")[group][values.slug(build)]
        level, _, policy = build.partition(" ")
        shown = {"": "", "search": ", search"}.get(policy, f", `{policy}`")
        instructions, time, own = (
            f"{percent(each[change])} {values.interval(each[f'{prefix}low'], each[f'{prefix}high'])}"
            for change, prefix in (("instructions-change", ""), ("time-change", "time-"), ("own-instructions", "own-"))
        )
        worst = f"{each['worst']}, {percent(each['worst-change'])}"
        row = [f"-{level}{shown}", percent(each["size-change"]), instructions, time]
        yield [*row, *([own, worst] if policy else ["-", "-"])]


def evictions() -> Iterator[list[str]]:
    """Yield the estimated instructions of held-out programs by the policies and the search of evictions."""
    yield [
        *("level", "decisions", "modules", "geometric mean", "95 % interval", "total", "smaller", "larger"),
        "largest change",
    ]
    for level, found in value("evictions.summary").items():
        if level not in EVICTION_LEVELS:
            continue
        rows = [
            (f"{_EVICTIONS[name]}{_GUARDS[kind]}", found[name][kind])
            for kind in _GUARDS
            for name in _EVICTIONS
            if name in found and (name != "default" or not _GUARDS[kind])
        ]
        if "search" in found:
            rows.append(("search, 30 compiles", found["search"]))
        for title, row in rows:
            low, high = (percent(end) for end in row["interval"])
            numbers = [row[key] for key in ("modules", "better", "worse")]
            yield [
                *(f"-{level}", title, str(numbers[0]), percent(row["geometric_mean"]), f"[{low}, {high}]"),
                *(percent(row["total"]), *map(str, numbers[1:]), percent(row["largest"])),
            ]


_EVICTION_BUILDS = {
    "evict": "`evict`, 1 compile",
    "best_of_two": "`evict`, best of two for each function, 3 compiles",
    "search": "search, `functions`, 30 compiles",
}


def eviction_programs() -> Iterator[list[str]]:
    """Yield the counted instructions and memory accesses of held-out programs by decisions on evictions."""
    columns = ("instructions", "95 % interval", "worst program", "memory accesses", "95 % interval")
    yield ["decisions", "programs", *columns]
    for build, title in _EVICTION_BUILDS.items():
        counted, accesses = (value("evictions.summary.programs")[build][kind] for kind in ("instructions", "accesses"))
        intervals = ["[{}, {}]".format(*map(percent, each["interval"])) for each in (counted, accesses)]
        yield [
            *(title, str(counted["programs"]), percent(counted["geometric_mean"]), intervals[0]),
            *(percent(counted["largest"]), percent(accesses["geometric_mean"]), intervals[1]),
        ]


TABLES: dict[str, Callable[[], Iterator[list[str]]]] = {
    **{f"benchmark.{level}.policies": partial(policies, level) for level in LEVELS},
    "benchmark.searches": searches,
    "bundled.test": bundled,
    **{
        f"card.{path.stem}.{part}": partial(rows, path.stem)
        for path in sorted(values.NETWORKS.glob("*.json"))
        for part, rows in (("policies", card_policies), ("projects", card_projects), ("larger", card_larger))
    },
    "learning.held_out": partial(learning, "learning"),
    "learning.projects": partial(learning, "learning-projects"),
    "run_time.held_out": partial(run_time, "held-out"),
    "performance.throughput": throughput,
    "performance.forks": forks,
    "searches.algorithms": algorithms,
    "searches.evictions": evictions,
    "searches.eviction-programs": eviction_programs,
    "searches.from-policy": from_policy,
}
