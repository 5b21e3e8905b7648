"""Tables of the page of targets: size, equality of objects, and runs of programs by target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import exactness
from docs.site.values import percent, source
from mlgo_gym.corpus.commands.targets import DEFAULT_TARGET


def checks() -> Iterator[list[str]]:
    """Yield by target the modules whose own choices give the plain object, and the runs of programs."""
    heading, *rows = exactness.of_targets(source("exactness")["own"])
    yield [*heading, "runs, random decisions", "runs, `inline-oz`", "right output"]
    for row in rows:
        yield [*row, *_runs(row[0].strip("`"))]


def _runs(target: str) -> list[str]:
    entries = [
        entry
        for entry in source("correctness")
        if entry["environment"] == "mlgo/Inline-v0" and entry.get("target", DEFAULT_TARGET) == target
    ]
    kinds = [sum(each["policies"] for each in entries if each.get("learned", False) is kind) for kind in (False, True)]
    return [*map(str, kinds), str(sum(entry["right"] for entry in entries))]


POLICIES = {
    "default": "`default`",
    "threshold:0": "`threshold:0`",
    "threshold:5": "`threshold:5`",
    "inline-fast": "fast bundled policy",
    "inline": "bundled policy",
    "search": "search, 50 compiles",
}
"""Title of each column of the tables of sizes, by the policy without its level."""

_LINKED = ("threshold:0", "threshold:5", "inline-fast", "inline")


def sizes() -> Iterator[list[str]]:
    """Yield the size of held-out modules by target and level: geometric mean, and how many are larger."""
    yield ["target", "level", "modules", *POLICIES.values()]
    for (target, level), found in _by_target().items():
        cells = [
            f"{percent(found[policy]['objects']['mean'])}, {found[policy]['objects']['worse']}"
            if policy in found
            else ""
            for policy in POLICIES
        ]
        yield [f"`{target}`", f"-{level}", str(found["default"]["objects"]["modules"]), *cells]


def linked() -> Iterator[list[str]]:
    """Yield the size of held-out programs by target and level: total of the linked functions, and larger programs."""
    yield ["target", "level", "programs", *(POLICIES[policy] for policy in _LINKED)]
    for (target, level), found in _by_target().items():
        for part, title in (("linked", "functions"), ("file", "with libc"), ("wasm-opt", "after `wasm-opt -Oz`")):
            if part in found["default"]:
                rows = [found[policy][part] for policy in _LINKED]
                cells = [f"{percent(row['total'])}, {row['worse']}" for row in rows]
                yield [f"`{target}`, {title}", f"-{level}", str(rows[0]["modules"]), *cells]


def _by_target() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the changes by target and level, then by policy without its level."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for key, change in source("targets")["changes"].items():
        target, level, policy = key.split(" ")
        found.setdefault((target, level), {})[policy.replace(f"-{level.lower()}", "")] = change
    return found


def firmware() -> Iterator[list[str]]:
    """Yield the bytes of the firmware example by level and build."""
    levels = source("firmware")
    plain, *builds = levels["Oz"]
    yield ["level", plain, *builds]
    for level, sizes in levels.items():
        yield [f"-{level}", f"{sizes[plain]:,}", *(percent(sizes[build] / sizes[plain] - 1) for build in builds)]


TABLES: dict[str, Callable[[], Iterator[list[str]]]] = {
    "targets.checks": checks,
    "targets.firmware": firmware,
    "targets.sizes": sizes,
    "targets.linked": linked,
}
