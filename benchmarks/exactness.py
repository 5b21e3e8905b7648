"""Adds the output of `own_choices.py` and `same_object.py` to docs/results/exactness.json, and makes its tables.

    python -m benchmarks.exactness --own runs/own.jsonl --ways runs/ways.jsonl --policies runs/policy.jsonl

Several results of one module count once: the last of each way. `make numbers` writes the tables into the page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import command_line

DATA = Path(__file__).parents[1] / "docs" / "results" / "exactness.json"

EVICT = "mlgo/RegAllocEvict-v0"

_CAUSES = ("the size cut-off", "calls that only unwinding reaches")
"""Beginnings of the explanations that a compile of the module has confirmed."""

Entry = dict[str, Any]


def proves(entry: Entry) -> bool:
    """Return whether clang's choices make the plain object, and differ from the rule only beside infinite weights."""
    return bool(entry.get("equal")) and entry["differing"] == entry["infinite_weights"] and not entry["unmatched"]


def own_choices(own: list[Entry], choices: list[Entry]) -> Iterator[list[str]]:
    """Yield the rows of the table of plain compiles and replays, by environment and level."""
    known = {(entry["corpus"], entry["module"]): entry for entry in choices}

    def is_explained(entry: Entry) -> bool:
        if entry["environment"] == EVICT:
            return proves(known.get((entry["corpus"], entry["module"]), {}))
        return str(entry.get("explained", "")).startswith(_CAUSES)

    yield ["environment", "level", "modules", "decisions", "same object", "cause confirmed", "unexplained"]
    own = [entry for entry in own if not target_of(entry)]
    for (environment, level), group in _groups(own, lambda entry: (entry["environment"], _level(entry))):
        equal = sum(entry.get("equal", False) for entry in group)
        explained = sum(is_explained(entry) for entry in group if not entry.get("equal"))
        decisions = sum(entry.get("decisions", 0) for entry in group)
        counts = (len(group), decisions, equal, explained, len(group) - equal - explained)
        yield [environment[5:-3], level, *(f"{count:,}" for count in counts)]


def of_targets(own: list[Entry]) -> Iterator[list[str]]:
    """Yield the rows of the table of plain compiles and replays of inlining, by target."""
    levels = ("-Oz", "-Os")
    heading = ["target", *(text for level in levels for text in (f"modules at {level}", "same object"))]
    yield [*heading, "size limit", "unwinding", "unexplained"]
    own = [entry for entry in own if target_of(entry) and entry["environment"] != EVICT]
    for (target,), group in _groups(own, lambda entry: (target_of(entry),)):
        cells = []
        for level in levels:
            equal = [bool(entry.get("equal")) for entry in group if _level(entry) == level]
            cells += [str(len(equal)), str(sum(equal))]
        different = [entry for entry in group if not entry.get("equal")]
        causes = [sum(str(entry.get("explained", "")).startswith(cause) for entry in different) for cause in _CAUSES]
        yield [f"`{target}`", *cells, *map(str, (*causes, len(different) - sum(causes)))]


def target_of(entry: Entry) -> str:
    """Return the target in the name of an entry's corpus; empty without one."""
    return "".join(str(entry["corpus"]).split("@")[2:3])


def ways_to_answer(ways: list[Entry]) -> Iterator[list[str]]:
    """Yield the rows of the table of ways to send the same decisions, by environment."""
    names = list(dict.fromkeys(name for entry in ways for name in entry.get("equal", {})))
    yield ["environment", "modules", "decisions", *names]
    for (environment,), group in _groups(ways, lambda entry: (entry["environment"],)):
        cells = []
        for name in names:
            equal = [entry["equal"][name] for entry in group if name in entry.get("equal", {})]
            cells.append(f"{sum(equal)} of {len(equal)}" if equal else "-")
        answers = sum(entry.get("answers", 0) for entry in group)
        yield [environment[5:-3], f"{len(group)}", f"{answers:,}", *cells]


def policies(entries: list[Entry]) -> Iterator[list[str]]:
    """Yield the rows of the table of policies, by policy and compiler: modules with the object of `gym.make`."""
    names = ("evaluate", "trace", "mlgo-clang", "plugin")
    yield ["policy", "clang", "modules", *names]
    for (policy, clang), group in _groups(entries, lambda entry: (entry["policy"], entry["clang"])):
        counts = [[entry["equal"][name] for entry in group if name in entry["equal"]] for name in names]
        cells = [f"{sum(equal)} of {len(equal)}" if equal else "-" for equal in counts]
        yield [f"`{policy}`", clang, str(len(group)), *cells]


def _level(entry: Entry) -> str:
    return "-Os" if "@Os" in entry["corpus"] else "-Oz"


def _groups(
    entries: list[Entry], key: Callable[[Entry], tuple[str, ...]]
) -> Iterator[tuple[tuple[str, ...], list[Entry]]]:
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    yield from sorted(groups.items())


def _lines(path: Path) -> list[Entry]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _merged(entries: list[Entry]) -> list[Entry]:
    """Return one entry for each module, environment and compiler."""
    merged: dict[tuple[str, ...], Entry] = {}
    for entry in entries:
        key = tuple(entry[name] for name in ("corpus", "environment", "clang", "module"))
        known = merged.get(key, {})
        if isinstance(entry.get("equal"), dict):
            entry = {**entry, "equal": {**known.get("equal", {}), **entry["equal"]}}
        merged[key] = entry
    return list(merged.values())


def main() -> None:
    """Add new data."""
    parser = command_line(__doc__)
    parser.add_argument("--own", type=Path, help="output of own_choices.py")
    parser.add_argument("--ways", type=Path, help="output of same_object.py")
    parser.add_argument("--policies", type=Path, help="output of same_object.py --policy")
    options = parser.parse_args()
    data = json.loads(DATA.read_text())
    for name in data:
        if getattr(options, name, None):
            data[name] = _merged([*data[name], *_lines(getattr(options, name))])
    parts = [f'"{name}": [\n' + ",\n".join(map(json.dumps, found)) + "\n]" for name, found in data.items()]
    DATA.write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()
