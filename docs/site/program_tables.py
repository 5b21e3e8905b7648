"""Tables of ten programs that everybody knows, by way of building them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from docs.site.values import RESULTS, percent, read, slug, value

BUILDS = {
    "O2": "plain -O2",
    "Os": "plain -Os",
    "plugin": "plugin, `inline-oz`",
    "wrapper": "wrapper, `inline-oz`",
    "recipes 10": "recipes, 10 compiles",
    "recipes 50": "recipes, 50 compiles",
    "Os wrapper": "wrapper, `inline-os` at -Os",
    "Os recipes 10": "recipes at -Os, 10 compiles",
}
"""Title of each build that is compared with plain clang at -Oz."""


def programs() -> Iterator[list[str]]:
    """Yield the linked bytes of each program at -Oz, and their change in each build."""
    titles = {name: title for name, title in BUILDS.items() if "plugin" not in name}
    yield ["program", "near training", "plain -Oz", *titles.values()]
    for name, row in read(RESULTS / "ten_programs.json").items():
        builds, plain = row["variants"], row["variants"]["Oz"]["text"]
        cells = [percent(builds[build]["text"] / plain - 1) if build in builds else "" for build in titles]
        yield [name, "yes" if row["trained"] else "no", f"{plain:,}", *cells]


def builds() -> Iterator[list[str]]:
    """Yield the change of each build over its programs: geometric means and totals, and the sum of the CPU time."""
    heading = ["build", "programs", "linked `.text`", "in total", "never near training, in total", "larger"]
    yield [*heading, "file", "instructions", "CPU time", "own tests pass"]
    known = value("ten-programs.builds")
    for name, title in BUILDS.items():
        if (found := known.get(slug(name))) is None:
            continue
        changes = [percent(found[key]) for key in ("text", "text-change", "never-trained-text")]
        others = [percent(found[key]) for key in ("file", "instructions")]
        tests = f"{sum(found['tests'])} of {len(found['tests'])}" if found["tests"] else ""
        counts = [str(found["programs"]), *changes, str(found["larger"]), *others]
        yield [title, *counts, f"{found['ratio']:.2f} times", tests]


TABLES: dict[str, Callable[[], Iterator[list[str]]]] = {"ten.programs": programs, "ten.builds": builds}
