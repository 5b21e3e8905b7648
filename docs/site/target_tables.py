"""Tables of the page of targets: size, equality of objects, and runs of programs by target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import exactness
from docs.site.values import percent, source
from mlgo_gym.corpus.targets import DEFAULT_TARGET, TARGETS

MACHINES = {
    "x86_64-linux": "baseline x86-64, the default",
    "aarch64-linux": "Armv8-A",
    "riscv64gc": "RISC-V",
    "riscv32imc": "RISC-V",
    "thumbv7em": "Cortex-M4, software floating point",
    "thumbv6m": "Cortex-M0, software floating point",
    "wasm32-wasi": "WebAssembly with WASI",
}


def targets() -> Iterator[list[str]]:
    """Yield the targets with the modules whose own choices give the plain object, and the runs of programs."""
    heading, *rows = exactness.of_targets(source("exactness")["own"])
    found = {row[0].strip("`"): row for row in rows}
    yield ["target", "machine", "triple", *heading[1:], "runs, random decisions", "runs, `inline-oz`", "right output"]
    for name, machine in MACHINES.items():
        yield [f"`{name}`", machine, f"`{TARGETS[name].triple}`", *found[name][1:], *_runs(name)]


def _runs(target: str) -> list[str]:
    entries = [
        entry
        for entry in source("correctness")
        if entry["environment"] == "mlgo/Inline-v0" and entry.get("target", DEFAULT_TARGET) == target
    ]
    kinds = [sum(each["policies"] for each in entries if each.get("learned", False) is kind) for kind in (False, True)]
    return [*map(str, kinds), str(sum(entry["right"] for entry in entries))]


POLICIES = {
    "threshold:0": "`threshold:0`",
    "threshold:5": "`threshold:5`",
    "inline-fast": "fast bundled policy",
    "inline": "bundled policy",
    "smaller:unlimited:inline": "smaller of clang and the bundled policy, no size limit",
    "inline-target": "policy of the target",
    "smallest": "smallest of clang, `threshold:0` and the bundled policies",
    "search": "search, 50 compiles",
}
"""Title of each column of the tables of sizes, by the policy without its level."""

_PARTS = {
    "objects": "modules",
    "linked": "linked",
    "wasm-opt": "after `wasm-opt`",
}
"""Lines of each cell of the table of sizes."""


def sizes() -> Iterator[list[str]]:
    """Yield the change of size by target and level: geometric mean, total, and how many are larger.

    Each cell has a line for the modules, one for the linked programs, and for WebAssembly one for programs after
    `wasm-opt`.
    """
    yield ["target", "level", "size", "number", *POLICIES.values()]
    for (target, level), found in sorted(_by_target().items(), key=_place):
        parts = [part for part in _PARTS if part in found["default"]]
        numbers = [str(found["default"][part]["modules"]) for part in parts]
        changes = [[_change(found[name][part]) for part in parts if part in found.get(name, {})] for name in POLICIES]
        if "search" in found:
            # The searched modules are a part of the others.
            changes[-1] = [f"{changes[-1][0]} of {found['search']['objects']['modules']}"]
        columns = [[_PARTS[part] for part in parts], numbers, *changes]
        yield [f"`{target}`", f"-{level}", *map("<br>".join, columns)]


def _place(entry: tuple[tuple[str, str], Any]) -> tuple[int, bool]:
    target, level = entry[0]
    return list(MACHINES).index(target), level != "Oz"


def _change(facts: dict[str, Any]) -> str:
    return f"{percent(facts['mean'])}, {percent(facts['total'])}, {facts['worse']}"


def _by_target() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the changes by target and level, then by policy without its level and target."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for key, change in source("targets")["changes"].items():
        target, level, policy = key.split(" ")
        name = policy.replace(f"-{level.lower()}", "").replace(target, "target")
        found.setdefault((target, level), {})[name] = change
    return found


def firmware() -> Iterator[list[str]]:
    """Yield the bytes of the firmware example by level and build."""
    levels = source("firmware")
    plain, *builds = levels["Oz"]
    yield ["level", plain, *builds]
    for level, sizes in levels.items():
        yield [f"-{level}", f"{sizes[plain]:,}", *(percent(sizes[build] / sizes[plain] - 1) for build in builds)]


TABLES: dict[str, Callable[[], Iterator[list[str]]]] = {
    "targets.list": targets,
    "targets.firmware": firmware,
    "targets.sizes": sizes,
}
