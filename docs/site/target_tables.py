"""Tables of the page of targets: size, equality of objects, and runs of programs by target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import exactness
from docs.site.values import interval, percent, source
from mlgo_gym.corpus.commands.targets import DEFAULT_TARGET


def exact() -> Iterator[list[str]]:
    """Yield the rows of plain compiles against replays of clang's own choices, by target and level."""
    yield from exactness.of_targets(source("exactness")["own"])


def runs() -> Iterator[list[str]]:
    """Yield the runs of programs by target: policies, objects that differ from plain clang's, and outputs."""
    yield ["target", "programs", "runs, random policies", "runs, `inline-oz`", "objects that differ", "right output"]
    by_target: dict[str, list[dict[str, Any]]] = {}
    for entry in source("correctness"):
        if entry["environment"] == "mlgo/Inline-v0":
            by_target.setdefault(entry.get("target", DEFAULT_TARGET), []).append(entry)
    for target, entries in sorted(by_target.items()):
        kinds = [
            sum(entry["policies"] for entry in entries if entry.get("learned", False) is learned)
            for learned in (False, True)
        ]
        changed, right = (sum(entry[key] for entry in entries) for key in ("changed", "right"))
        programs = len({entry["program"] for entry in entries})
        yield [f"`{target}`", *map(str, (programs, *kinds, changed)), f"{right} of {sum(kinds)}"]


def sizes() -> Iterator[list[str]]:
    """Yield the size of held-out modules and linked programs by target, level and policy, against plain clang."""
    heading = ["target", "level", "policy", "modules", "geometric mean", "95 % interval", "total", "larger"]
    yield [*heading, "programs", "linked, geometric mean", "linked, total"]
    for key, found in source("targets")["changes"].items():
        target, level, policy = key.split(" ")
        objects, linked = found["objects"], found.get("linked")
        ends = interval(*objects["interval"]) if objects["interval"] else ""
        cells = [str(objects["modules"]), percent(objects["mean"]), ends, percent(objects["total"])]
        last = [str(linked["modules"]), percent(linked["mean"]), percent(linked["total"])] if linked else ["", "", ""]
        name = "search, 50 compiles" if policy == "search" else f"`{policy}`"
        yield [f"`{target}`", f"-{level}", name, *cells, str(objects["worse"]), *last]


def webassembly() -> Iterator[list[str]]:
    """Yield the code of WebAssembly programs with their C library, before and after `wasm-opt -Oz`."""
    yield ["level", "policy", "programs", "code, geometric mean", "total", "after `wasm-opt`, geometric mean", "total"]
    for key, found in source("targets")["changes"].items():
        _, level, policy = key.split(" ")
        if "wasm-opt" in found:
            before, after = found["file"], found["wasm-opt"]
            changes = [percent(each[name]) for each in (before, after) for name in ("mean", "total")]
            yield [f"-{level}", f"`{policy}`", str(before["modules"]), *changes]


def firmware() -> Iterator[list[str]]:
    """Yield the bytes of the firmware example by build and level."""
    levels = source("firmware")
    yield ["build", *(text for level in levels for text in (f"bytes at -{level}", "change"))]
    plain = "plain clang"
    for build in levels["Oz"]:
        cells = [(sizes[build], percent(sizes[build] / sizes[plain] - 1)) for sizes in levels.values()]
        yield [build, *(text for size, change in cells for text in (f"{size:,}", "" if build == plain else change))]


TABLES: dict[str, Callable[[], Iterator[list[str]]]] = {
    "targets.exact": exact,
    "targets.firmware": firmware,
    "targets.runs": runs,
    "targets.sizes": sizes,
    "targets.webassembly": webassembly,
}
