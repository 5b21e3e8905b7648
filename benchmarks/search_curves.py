"""Draw what `benchmarks/search.py` found: size against compiles, for each corpus and algorithm.

    python benchmarks/search_curves.py docs/results/search_algorithms.json docs/results/search_bundles.json \
        --panels zstd builtin:c/btree --picture docs/images/search.png

A panel is one module, or a corpus, each line then the geometric mean over those of its modules that every algorithm of
the panel was run on. Where a search ended before its budget, its result stays.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_IN_A_ROW = 3

_LONG = 20
"""Longer names of modules are shown without their folders."""

Curves = dict[str, dict[str, dict[str, Any]]]
"""By corpus, algorithm and module: what `SearchResult` says, without the decisions."""


def read(files: Sequence[Path]) -> Curves:
    """Return all results of some files; of two for the same the one with more compiles."""
    found: Curves = defaultdict(lambda: defaultdict(dict))
    for file in files:
        for table in json.loads(file.read_text())["gains"]:
            modules = found[table["corpus"]][table["algorithm"]]
            for result in table["modules"]:
                known = modules.get(result["module"])
                if known is None or known["compiles"] < result["compiles"]:
                    modules[result["module"]] = result
    return found


def change(results: Sequence[dict[str, Any]], compiles: int) -> float:
    """Return the geometric mean of the change after so many compiles."""
    logarithms = []
    for result in results:
        best = min((cost for number, cost in result["improvements"] if number <= compiles), default=result["baseline"])
        logarithms.append(math.log(min(best, result["baseline"]) / result["baseline"]))
    return math.expm1(statistics.mean(logarithms))


def panel(curves: Curves, name: str) -> list[tuple[str, int, list[float]]]:
    """Return the lines of one panel: algorithm, number of modules, and the change after each number of compiles.

    Args:
        curves: all results.
        name: a corpus, or `corpus:module`.

    Raises:
        SystemExit: there is nothing of that name.
    """
    corpus, _, module = name.partition(":")
    found = {algorithm: modules for algorithm, modules in curves[corpus].items() if not module or module in modules}
    if not found:
        raise SystemExit(f"no results of {name}; there are {', '.join(curves)}")
    shared = {module} if module else set.intersection(*(set(modules) for modules in found.values()))
    ends = {algorithm: max(modules[each]["compiles"] for each in shared) for algorithm, modules in found.items()}
    if not module:
        ends = dict.fromkeys(ends, min(ends.values()))
    return [
        (algorithm, len(shared), [change([modules[each] for each in sorted(shared)], at) for at in range(end + 1)])
        for (algorithm, modules), end in zip(sorted(found.items()), (ends[name] for name in sorted(ends)), strict=True)
    ]


def main() -> None:
    """Draw, and print a table of the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="what `benchmarks/search.py --json` wrote")
    parser.add_argument("--panels", nargs="+", help="corpora, or corpus:module; all corpora with two algorithms")
    parser.add_argument("--at", nargs="+", type=int, default=[10, 20, 40, 60, 100, 200], help="for the table")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    curves = read(options.files)
    names = options.panels or [name for name, found in curves.items() if len(found) > 1]
    panels = {name: panel(curves, name) for name in names}
    print(f"{'panel':28} {'algorithm':10} {'modules':>7} " + " ".join(f"{compiles:>8}" for compiles in options.at))
    for name, lines in panels.items():
        for algorithm, count, line in lines:
            told = " ".join(f"{line[at]:+8.2%}" if at < len(line) else f"{'':8}" for at in options.at)
            print(f"{name:28} {algorithm:10} {count:7} {told}")
    if options.picture:
        draw(panels, curves, options.picture)


def draw(panels: dict[str, list[tuple[str, int, list[float]]]], curves: Curves, path: Path) -> None:
    """Draw the panels, three in a row."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import lines, pyplot

    columns = min(len(panels), _IN_A_ROW)
    rows = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(rows, columns, figsize=(4.0 * columns, 3.5 * rows), squeeze=False)
    algorithms = sorted({algorithm for drawn in panels.values() for algorithm, *_ in drawn})
    colors = {algorithm: f"C{number}" for number, algorithm in enumerate(algorithms)}
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (name, drawn) in zip(grid.flat, panels.items(), strict=False):
        for algorithm, _, line in drawn:
            style = {"linewidth": 2.2, "zorder": 3} if algorithm == "bundles" else {"linewidth": 1.3}
            changes = [100 * value for value in line]
            axes.step(range(len(line)), changes, where="post", color=colors[algorithm], label=algorithm, **style)
        corpus, _, module = name.partition(":")
        size = next((found[module]["baseline"] for found in curves[corpus].values() if module in found), 0)
        count = drawn[0][1]
        title = (
            f"{module if len(module) < _LONG else module.rpartition('/')[2]}, {size:,.0f} bytes"
            if module
            else f"{corpus}, {count} module{'s' if count > 1 else ''}"
        )
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("compiles")
        axes.set_ylabel(".text against clang, %")
        axes.axhline(0, color="black", linewidth=0.8)
    handles = [lines.Line2D([], [], color=colors[algorithm]) for algorithm in algorithms]
    figure.legend(handles, algorithms, loc="lower center", ncols=len(algorithms), fontsize=9)
    figure.tight_layout(rect=(0, 0.25 / (3.5 * rows), 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
