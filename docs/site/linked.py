"""The tables of linked programs, from docs/results/linked.json."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.linked_builds import WAYS
from docs.site.measurements import interval, percent, read
from mlgo_gym.evaluation.statistics import Change

Program = Mapping[str, Any]
"""A row of the results."""

GROUPS = {
    "five projects": ("experiment",),
    "eight others": ("other",),
    "two new": ("new",),
    "15 in C++": ("experiment", "other", "new"),
    "three in C": ("C",),
}
"""Titles of sets of programs, with their groups in the results."""

STEPS = {
    "internal": "facts, clang's own choices",
    "rule": "facts, `last-call`",
    "recipes": "facts, recipes",
    "thin without imports": "ThinLTO without imports",
    "full": "full LTO",
    "thin": "ThinLTO",
    "g++": "g++ 12",
    "last-call": "`last-call` without facts",
}
"""Builds at -Oz, in the order of the tables."""


_OF_LINK = ("internal", "rule", "recipes", "smallest with facts")
"""Builds whose facts are those of the link."""


def programs(*groups: str) -> dict[str, Program]:
    """Return the programs of groups by name."""
    return {name: row for name, row in read("linked").items() if row["group"] in groups}


def build_of(step: str, link: str) -> str:
    """Return the build for a link: with folding, facts are those of folding."""
    return f"{step}, folding" if link == "icf" and step in _OF_LINK else step


def changes(rows: Mapping[str, Program], build: str, value: Callable[[Any], Any], base: str = "Oz") -> Change:
    """Return the changes of the programs that have a value in both builds; each program is a project."""
    pairs = {
        name: (value(row["builds"][build]), value(row["builds"][base]))
        for name, row in rows.items()
        if {build, base} <= row["builds"].keys() and None not in map(value, (row["builds"][build], row["builds"][base]))
    }
    return Change(tuple(pairs.values()), tuple(pairs))


def text(link: str, part: int = 0) -> Callable[[Any], Any]:
    """Return the function from a build to the linked bytes of code, of unwind tables (1) or of the file (2)."""
    return lambda build: build[link][part] if link in build else None


def against_sections(rows: Mapping[str, Program], step: str, link: str) -> Change:
    """Return the change of the code of a build in a link, against plain -Oz in that with `--gc-sections`."""
    builds = [(row["builds"][build_of(step, link)], row["builds"]["Oz"]) for row in rows.values()]
    return Change(tuple((build[link][0], plain["gc"][0]) for build, plain in builds), tuple(rows))


def by_group(link: str) -> Iterator[Sequence[str]]:
    """Yield the mean change of each build over sets of programs, and on how many builds with facts are smaller."""
    titles = ("five projects", "eight others", "15 in C++")
    intervals = (cell for title in titles[1:] for cell in (title, "95 % interval"))
    smaller = ("`last-call` with facts is smaller on", "recipes are smaller on")
    yield ["build", titles[0], *intervals, "larger of 15", *smaller]
    for step, title in STEPS.items():
        found = [changes(programs(*GROUPS[name]), build_of(step, link), text(link)) for name in titles]
        cells = [cell for change in found for cell in (percent(change.mean), interval(change.estimate.interval))]
        del cells[1]  # a page has no room for the interval of the programs on which facts were developed
        cells.append(str(found[-1].worse))
        for build in ("rule", "recipes"):
            against = changes(programs(*GROUPS[titles[2]]), build_of(build, link), text(link), build_of(step, link))
            cells.append("" if build == step else f"{against.better} of {len(against.pairs)}")
        yield [title, *cells]


def by_step() -> Iterator[Sequence[str]]:
    """Yield the steps to a smaller program: changes over sets of programs, in total, with and without folding."""
    sets = {title: programs(*GROUPS[title]) for title in ("15 in C++", "three in C")}
    yield ["step", *sets, "larger of 15", *(f"folding: {title}" for title in sets), "larger of 15"]
    for title, link in (("1. `-Oz`", "whole"), ("2. `--gc-sections`", "gc"), ("3. folding: `--icf=all`", "icf")):
        found = {name: against_sections(rows, "Oz", link) for name, rows in sets.items()}
        cells = [f"{change.baseline:,}" if link == "gc" else percent(change.total) for change in found.values()]
        folded = [f"{change.value:,}" if link == "icf" else "" for change in found.values()]
        yield [title, *cells, "" if link == "gc" else str(found["15 in C++"].worse), *folded, ""]
    for step, title in STEPS.items():
        cells = []
        for link in ("gc", "icf"):
            found = {name: changes(rows, build_of(step, link), text(link)) for name, rows in sets.items()}
            cells += [percent(change.total) if change.pairs else "" for change in found.values()]
            cells.append(str(found["15 in C++"].worse))
        yield [f"{_NUMBERS.get(step, '')}{title}", *cells]


PAIRS = {
    ("rule", "internal"): ("facts, `last-call`", "facts, clang's own choices"),
    ("last-call", "Oz"): ("`last-call` without facts", "plain -Oz"),
    ("smallest", "Oz"): ("smallest of four without facts", "plain -Oz"),
    ("smallest", "last-call"): ("smallest of four without facts", "`last-call` without facts"),
    ("smallest with facts", "Oz"): ("smallest of four with facts", "plain -Oz"),
    ("smallest with facts", "rule"): ("smallest of four with facts", "facts, `last-call`"),
    ("last-call, no size limit", "last-call"): ("`last-call` without facts or size limit", "`last-call` without facts"),
}
"""Builds that are compared program by program, with their titles."""


def by_pair() -> Iterator[Sequence[str]]:
    """Yield the mean change from one build to another over the C++ programs that have both, by link."""
    yield ["build", "against", "programs", *(f"{fold}{title}" for fold in ("", "folding: ") for title in _OF_PAIR)]
    rows = programs(*GROUPS["15 in C++"])
    for (build, base), titles in PAIRS.items():
        cells = []
        for link in ("gc", "icf"):
            found = changes(rows, build_of(build, link), text(link), build_of(base, link))
            cells += [percent(found.mean), interval(found.estimate.interval), str(found.worse)]
        yield [*titles, str(len(found.pairs)), *cells]


_OF_PAIR = ("mean", "95 % interval", "larger")
_NUMBERS = {
    "internal": "4. ",
    "rule": "5. ",
    "recipes": "6. ",
    "thin without imports": "instead of 4 to 6: ",
    "full": "instead of 4 to 6: ",
}


LEVELS = {
    ("internal", "Oz"): "-Oz, facts, clang's own choices",
    ("rule", "Oz"): "-Oz, facts, `last-call`",
    ("Os", "Oz"): "plain -Os",
    ("Os rule", "Oz"): "-Os, facts, `last-call`",
    ("Os recipes", "Oz"): "-Os, facts, recipes",
    ("Os rule", "Os"): "-Os, facts, `last-call`",
    ("O2", "Oz"): "plain -O2",
    ("O2 internal", "O2"): "-O2, facts, clang's own choices",
}
"""Builds and what they are compared with."""


def by_level() -> Iterator[Sequence[str]]:
    """Yield size, unwind tables, file, instructions and tests of builds, against a plain build."""
    titles = ("`.text`, in total", "mean", "95 % interval", "larger", "unwind tables", "file", "instructions")
    yield ["build", "against", *titles, "runs", "own tests pass"]
    rows = programs(*GROUPS["15 in C++"])
    for (build, base), title in LEVELS.items():
        code, unwind, file = (changes(rows, build, text("gc", part), base) for part in range(3))
        if not code.pairs:
            continue
        count = changes(rows, build, lambda row: row.get("instructions"), base)
        tests = [row["builds"].get(build, {}).get("tests") for row in rows.values()]
        tests = [passed for passed in tests if passed is not None]
        cells = [percent(code.total), percent(code.mean), interval(code.estimate.interval), str(code.worse)]
        cells += [
            percent(unwind.total),
            percent(file.total),
            percent(count.mean) if count.pairs else "",
            str(len(count.pairs)),
        ]
        yield [title, f"plain -{base}", *cells, f"{sum(tests)} of {len(tests)}" if tests else ""]


def recipes() -> Iterator[Sequence[str]]:
    """Yield the change by recipes that a search in the link view found, over the programs that were searched."""
    titles = (f"{name}{build}" for build in ("facts, `last-call`", "recipes") for name in ("mean, ", "total, "))
    yield ["link", "programs", "searched", *titles, "95 % interval", "smaller than `last-call` with facts"]
    for link, title in (("gc", "without folding"), ("icf", "with folding")):
        names = [build_of(step, link) for step in ("rule", "recipes")]
        for group in ("five projects", "eight others", "two new", "15 in C++"):
            every = programs(*GROUPS[group])
            rows = {name: row for name, row in every.items() if names[1] in row["builds"]}
            if not rows:
                continue
            found = [changes(rows, build, text(link)) for build in names]
            cells = [percent(value) for change in found for value in (change.mean, change.total)]
            against = changes(rows, names[1], text(link), names[0])
            cells += [interval(found[1].estimate.interval), f"{against.better} of {len(rows)}"]
            yield [title, group, f"{len(rows)} of {len(every)}", *cells]


def in_view() -> Iterator[Sequence[str]]:
    """Yield for each policy how far the sum of a program's objects in the link view is from its linked file."""
    every = programs(*GROUPS["15 in C++"], "C").values()
    words = ("within 0.6 %", "smallest", "largest", "builds")
    yield ["policy", "programs", *(f"{link}{title}" for link in ("", "folding: ") for title in words)]
    for policy in ("clang", "last-call", "never", "always", "random"):
        cells, step = list[str](), {"clang": "internal", "last-call": "rule"}.get(policy)
        for view, link in (("view", "gc"), ("view, folding", "icf")):
            rows = [row for row in every if view in row]
            found = [row[view][policy][0] / row[view][policy][1] - 1 for row in rows]
            builds = [row[view][policy][0] / row["builds"][build_of(step, link)][link][0] - 1 for row in rows if step]
            cells += [str(_exact(found)), percent(min(found)), percent(max(found)), str(_exact(builds)) if step else ""]
        yield [policy if policy in ("clang", "random") else f"`{policy}`", str(len(found)), *cells]


def _exact(found: Sequence[float]) -> int:
    return sum(abs(change) <= 0.006 for change in found)


def rewards() -> Iterator[Sequence[str]]:
    """Yield the change of the objects in the link view by each policy, over the programs in C++."""
    views = {name: row["view"] for name, row in programs(*GROUPS["15 in C++"]).items() if "view" in row}
    yield ["policy", "programs", "mean", "95 % interval", "total", "larger", "against `last-call`", "95 % interval"]
    for policy in ("last-call", "network", "never", "random", "always"):
        rows = {name: row for name, row in views.items() if policy in row}
        change, against = (
            Change(tuple((row[policy][0], row[base][0]) for row in rows.values()), tuple(rows))
            for base in ("clang", "last-call")
        )
        cells = [percent(change.mean), interval(change.estimate.interval), percent(change.total), str(change.worse)]
        cells += ["", ""] if policy == "last-call" else [percent(against.mean), interval(against.estimate.interval)]
        yield [policy if policy in ("network", "random") else f"`{policy}`", str(len(rows)), *cells]


def cpu_time() -> Iterator[Sequence[str]]:
    """Yield the CPU time of each way to build with link facts, as a multiple of that of plain clang."""
    yield ["build with link facts", "programs", "in total", "lowest", "highest"]
    rows = [row["CPU time"] for row in programs(*GROUPS["15 in C++"]).values()]
    for name in WAYS[1:]:
        ratios = [row[name] / row["plain"] for row in rows]
        total = sum(row[name] for row in rows) / sum(row["plain"] for row in rows)
        way, _, policy = name.partition(", ")
        title = "clang's own choices" if policy == "default" else f"`{policy}`"
        yield [f"{way}, {title}", str(len(rows)), *(f"{ratio:.2f}" for ratio in (total, min(ratios), max(ratios)))]


def older_facts() -> Iterator[Sequence[str]]:
    """Yield newer versions built with their own facts, and with those of the version before."""
    yield ["program", "facts of", "plain -Oz", "own facts", "facts of the older version", "own tests"]
    for name, row in programs("newer").items():
        builds = row["builds"]
        own, older = (builds[build]["gc"][0] / builds["Oz"]["gc"][0] - 1 for build in ("rule", "rule, older facts"))
        tests = "pass" if builds["rule, older facts"]["tests"] else "fail"
        yield [name, row["older"], f"{builds['Oz']['gc'][0]:,}", percent(own), percent(older), tests]
