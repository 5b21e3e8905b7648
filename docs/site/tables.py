"""The tables of the pages, in Markdown, from the measurements of docs/results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from statistics import median
from typing import Any

from benchmarks import exactness
from benchmarks.held_out import RULES
from benchmarks.measuring import facts, rule_digest
from benchmarks.metrics import GROUPS, compared
from benchmarks.protocol import LEVELS
from docs.site import linked, measurements
from docs.site.measurements import benchmark, interval, percent, read
from mlgo_gym.evaluation.statistics import Change

LAST_CALL = "last-call"

Rows = Iterator[Sequence[str]]
"""The heading and the rows of a table."""


def text(name: str) -> str:
    """Return a table; raise `LookupError` if none has this name."""
    if name not in TABLES:
        raise LookupError(f"expected a table of {sorted(TABLES)}, got {name!r}")
    (first, *others), *rows = TABLES[name]()
    heading = (first + _stamp(name), *others)
    rule = ["---", *("---:" for _ in heading[1:])]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heading, rule, *rows)).replace("|  |", "| |")


def _stamp(name: str) -> str:
    """Return the digests of the bundled rule with which a table was measured; empty if it has no row of the rule."""
    notes = read("measured").items()
    sources = (note for data, note in notes if data == name.partition(".")[0] or name in note["tables"])
    rules = {note["rule"] for note in sources if "rule" in note and name not in WITHOUT_RULE}
    titles = [f"{'' if rule == rule_digest() else 'earlier '}rule {rule}" for rule in sorted(rules)]
    return f" ({', '.join(titles)})" if titles else ""


WITHOUT_RULE = ("metrics.allocation",)
"""Tables without a row of the bundled rule, from measurements that have other tables with one."""


def counted(facts: Mapping[str, Any], *keys: str) -> list[str]:
    """Return counts of modules as cells."""
    return [f"{facts[key]:.0f}" for key in keys]


def policies(level: str) -> Rows:
    """Yield the methods of a level of the benchmark that are no searches, the smallest code first."""
    last_call = f"`{LAST_CALL}`"
    yield [
        *("method", "C", "C++", f"all projects, {CHANGE[0]}", CHANGE[1], f"against {last_call}", "CPU time"),
        "training",
    ]
    by_language = [benchmark(level, language) for language in LANGUAGES]
    against = benchmark(level, against=last_call)
    found = {key: row for key, row in benchmark(level).items() if not row.get("search")}
    own = found["`default`: clang's own choices", 1]["cpu_seconds"]
    for key, row in sorted(found.items(), key=lambda item: item[1]["mean"]):
        languages = [percent(rows[key]["mean"]) for rows in by_language]
        cost = f"{row['cpu_seconds'] / own:.2f}" if "decisions" in row else ""
        mean, ends, larger = _change(row)
        pair = "<br>".join(_change(against[key])[:2]) if key[0] != last_call else ""
        yield [key[0], *languages, f"{mean}<br>{ends}", larger, pair, cost, _training(row)]


CHANGE = ("95 % interval", "larger")


def _change(facts: Mapping[str, Any]) -> list[str]:
    """Return a mean, its interval over projects, and the larger modules."""
    return [percent(facts["mean"]), interval(facts["interval"]), *counted(facts, "worse")]


def _training(row: Mapping[str, Any]) -> str:
    minutes = f"{row['train_cpu_seconds'] / 60:.0f} CPU min" if row.get("train_cpu_seconds", 0) >= 1 else ""
    seeds = f"{row['seeds']} seeds:<br>{' to '.join(map(percent, row['range']))}" if row["range"] else ""
    return ",<br>".join(filter(None, (row.get("budget"), minutes, seeds)))


def searches() -> Rows:
    """Yield the searches of both levels, and policies on the same modules."""
    yield ["method", "compiles", *(cell for level in LEVELS for cell in (f"-{level}", *CHANGE))]
    found = []
    for level in LEVELS:
        of_search = next(row for row in read("benchmark")["rows"] if row["level"] == level and row.get("search"))
        rows = benchmark(level, modules=tuple(of_search["sizes"]))
        found.append({key: row for key, row in rows.items() if key[0] in COMPARED or row.get("search")})
    for key, row in sorted(found[0].items(), key=lambda item: item[1]["mean"]):
        yield [key[0].removeprefix("search: "), str(key[1]), *_change(row), *_change(found[1][key])]


COMPARED = (f"`{LAST_CALL}`", "smallest of four compiles")
"""Policies that stand beside searches."""


RUN_TIME_BUILDS = ("O2", "O2 search", "Os", "Os threshold:5", "Os last-call", "Oz", "Oz threshold:5", "Oz last-call")
"""Builds of programs, in the order of the table."""


def run_time() -> Rows:
    """Yield size and run time of the held-out programs, a row for each build."""
    yield [*("build", "programs", "size", "instructions", "wall time"), *("instructions, same level", "worst program")]
    for build in RUN_TIME_BUILDS:
        row = measurements.run_time()[build]
        level, _, policy = build.partition(" ")
        title = {"": "", "search": ", search"}.get(policy, f", `{policy}`")
        means = [row.get(key) for key in ("instructions", "time", "own")]
        changes = [f"{percent(mean[0])}<br>{interval(mean[1])}" if mean else "-" for mean in means]
        worst, change = row["worst"]
        own = [changes[2], f"{worst}, {percent(change)}"] if policy else ["-", "-"]
        yield [f"-{level}{title}", str(row["programs"]), percent(row["size"]), *changes[:2], *own]


def target_sizes() -> Rows:
    """Yield the change of size by target and level: geometric means, and how many modules or programs are larger."""
    changes = read("targets")["changes"]
    kinds = {"objects": "modules", "linked": "programs"}
    yield ["target", *(cell for kind in kinds.values() for cell in (kind, "-Oz", "larger", "-Os", "larger"))]
    for target in sorted({name.split()[0] for name in changes}):
        cells = []
        for kind in kinds:
            rows = [changes[f"{target} {level} {LAST_CALL}"][kind] for level in LEVELS]
            cells += counted(rows[0], "modules")
            cells += [cell for row in rows for cell in (percent(row["mean"]), *counted(row, "worse"))]
        yield [f"`{target}`", *cells]


def episode_speed() -> Rows:
    """Yield the duration of episodes against a plain compile, and against the smallest host loop."""
    episodes = read("speed")["episodes"]
    others = ["to the host loop", "to answers in a file", "CPU time: clang", "host"]
    yield ["episode", "modules", "to a plain compile", "smallest", "largest", *others]
    for form, row in episodes.items():
        ratios = [row["plain"][key] for key in ("median", "smallest", "largest")]
        ratios += [row[host]["median"] if host in row else None for host in ("loop", "file")]
        ratios += [row["cpu"]["clang"], row["cpu"]["host"]]
        yield [form, str(row["modules"]), *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios)]


def throughput() -> Rows:
    """Yield the decisions per second of vector environments."""
    yield ["environments", "decisions per second", "relative"]
    for name, row in read("speed")["vectors"].items():
        yield [name, f"{row['steps_per_second']:,.0f}", f"{row['to_async']:.2f}"]


SETS = {"six": "six projects", "others": "eighteen projects"}


def held_out(*, networks: bool = False) -> Rows:
    """Yield rules, or networks, on every set of held-out modules, against plain clang and against `last-call`."""
    columns = ("mean", "95 % interval", "median", "without the best", "against `last-call`", "95 % interval")
    yield ["projects", "policy", *columns]
    for part, title in SETS.items():
        for level in LEVELS:
            for policy in measurements.held_out(part, level):
                if policy == "default" or policy.startswith("network") != networks:
                    continue
                row = measurements.held_out_facts(part, level, policy)
                middle, rest = spread(measurements.held_out_changes(part, level, policy))
                cells = [percent(row["mean"]), interval(row["interval"]), percent(middle), percent(rest["mean"])]
                other = measurements.held_out_facts(part, level, policy, LAST_CALL) if policy != LAST_CALL else None
                against = [percent(other["mean"]), interval(other["interval"])] if other else [""] * 2
                name = policy if networks else f"`{policy}`"
                yield [f"{title}, -{level}", name, *cells, *against]


LANGUAGES = ("C", "C++")


def best_project(projects: Mapping[str, Change]) -> str:
    """Return the project with the largest reduction."""
    return min(projects, key=lambda name: projects[name].mean)


def spread(projects: Mapping[str, Change]) -> tuple[float, dict[str, Any]]:
    """Return the median of projects, and the facts without the project with the largest reduction."""
    best = best_project(projects)
    rest = [(pair, name) for name, change in projects.items() if name != best for pair in change.pairs]
    pairs, names = zip(*rest, strict=True)
    return median(change.mean for change in projects.values()), facts(list(pairs), list(names))


OPENED = {
    ", by downloads": measurements.opened_projects("unnamed"),
    ", of Debian": measurements.opened_projects("debian"),
    ", both": measurements.opened_projects("unnamed", "debian"),
}
"""Sets of projects that were opened once."""


def by_language(sets: Mapping[str, Callable[[str, str, str], Mapping[str, Change]]], policy: str) -> Rows:
    """Yield a policy on the projects of a language at a level, which the functions return, against plain clang."""
    columns = ("projects", "smaller", "larger", "mean", "95 % interval", "median", "best project", "mean without it")
    yield ["language, level", *columns, "total"]
    for language, level, title in product(LANGUAGES, LEVELS, sets):
        projects = sets[title](language, level, policy)
        row = facts(
            [pair for change in projects.values() for pair in change.pairs],
            [name for name, change in projects.items() for _ in change.pairs],
        )
        best, (middle, rest) = best_project(projects), spread(projects)
        means = [change.mean for change in projects.values()]
        counts = [sum(mean < 0 for mean in means), sum(mean > 0 for mean in means)]
        yield [
            f"{language}, -{level}{title}",
            *(str(len(projects)), *map(str, counts), percent(row["mean"]), interval(row["interval"])),
            *(percent(middle), f"{best}, {percent(projects[best].mean)}", percent(rest["mean"]), percent(row["total"])),
        ]


def opened() -> Rows:
    """Yield `last-call` on the sets that were opened once, alone and together, and the other rule on both."""
    yield from by_language(OPENED, LAST_CALL)
    yield from [*by_language({f", both, `{RULES[1]}`": OPENED[", both"]}, RULES[1])][1:]


def coverage() -> Rows:
    """Yield how often intervals of simulated changes contain the true change."""
    yield ["projects and their modules", "t on project means", "width", "bootstrap over projects and modules"]
    for name, row in read("intervals").items():
        t, bootstrap = (f"{100 * row[key]:.1f} %" for key in ("t", "bootstrap"))
        yield [name, t, f"{100 * row['width']:.1f} %", bootstrap]


def metrics(group: str) -> Rows:
    """Yield the change of each metric under each policy, with the shares of modules where exact quantities disagree."""
    _, _, _, names, exact = GROUPS[group]
    results = read("metrics")[group]
    yield ["metric", *(f"`{policy}`" for policy in results)]
    for metric in (*exact, *(name for name in names if name not in exact)):
        cells = []
        for modules in results.values():
            found = [compared(modules, metric, name) for name in exact]
            shares = ", ".join(f"{100 * opposite:.0f} %" for _, _, opposite in found)
            cells.append(percent(found[0][0].mean) + (f" ({shares})" if metric not in exact else ""))
        yield [f"`{metric}`", *cells]


def graph_learning() -> Rows:
    """Yield the graph network and rules on test modules, against plain clang and against `last-call`."""
    columns = ("geometric mean", "95 % interval", "total", "larger", "against `last-call`", "95 % interval")
    yield ["policy", "modules", "projects", *columns]
    found = read("graphs")["learning"]
    sizes = {name: dict(zip(row["modules"], row["sizes"], strict=True)) for name, row in found.items()}
    for name, row in found.items():
        change = facts([(value, base) for value, base in row["sizes"]], row["projects"])
        pairs = [(value, sizes[LAST_CALL][module][0]) for module, (value, _) in sizes[name].items()]
        other = facts(pairs, row["projects"])
        against = ["", ""] if name == LAST_CALL else [percent(other["mean"]), interval(other["interval"])]
        cells = [percent(change["mean"]), interval(change["interval"]), percent(change["total"])]
        title = name if " " in name else f"`{name}`"  # networks have titles, rules their names
        yield [title, *counted(change, "modules", "projects"), *cells, *counted(change, "worse"), *against]


TABLES: dict[str, Callable[[], Rows]] = {
    **{f"benchmark.{level}": partial(policies, level) for level in LEVELS},
    "benchmark.searches": searches,
    "exactness.own_choices": lambda: exactness.own_choices(read("exactness")["own"], read("exactness")["choices"]),
    "exactness.ways": lambda: exactness.ways_to_answer(read("exactness")["ways"]),
    "graphs.learning": graph_learning,
    "held_out": held_out,
    "held_out.networks": partial(held_out, networks=True),
    "held_out.opened": opened,
    **{f"linked.builds.{link}": partial(linked.by_group, link) for link in ("gc", "icf")},
    "linked.cpu_time": linked.cpu_time,
    "linked.levels": linked.by_level,
    "linked.older_facts": linked.older_facts,
    "linked.steps": linked.by_step,
    "linked.view": linked.in_view,
    "linked.recipes": linked.recipes,
    "linked.pairs": linked.by_pair,
    "linked.rewards": linked.rewards,
    **{f"metrics.{group}": partial(metrics, group) for group in GROUPS},
    "readme": partial(by_language, {"": measurements.held_out_projects}, LAST_CALL),
    "performance.episodes": episode_speed,
    "performance.throughput": throughput,
    "run_time.held_out": run_time,
    "statistics.coverage": coverage,
    "targets.sizes": target_sizes,
}
