"""Draw what `benchmarks/search.py` found: size against compiles, for each corpus and algorithm.

    python benchmarks/search_curves.py docs/results/search_algorithms.json docs/results/search_bundles.json \
        --picture docs/images/search.png

Each panel is a corpus, each line the geometric mean over those of its modules that every algorithm of the panel was run
on. Where a search ended before its budget, its result stays.
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


def main() -> None:
    """Draw, and print a table of the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="what `benchmarks/search.py --json` wrote")
    parser.add_argument("--corpora", nargs="+", help="the panels; all that have two algorithms or one module alone")
    parser.add_argument("--at", nargs="+", type=int, default=[10, 20, 40, 60, 100, 200], help="for the table")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    curves = read(options.files)
    corpora = options.corpora or [name for name, found in curves.items() if len(found) > 1]
    rows = []
    print(f"{'corpus':16} {'algorithm':10} {'modules':>7} " + " ".join(f"{compiles:>8}" for compiles in options.at))
    for corpus in corpora:
        shared = set.intersection(*(set(found) for found in curves[corpus].values()))
        most = min(max(found[name]["compiles"] for name in shared) for found in curves[corpus].values())
        for algorithm, found in sorted(curves[corpus].items()):
            results = [found[name] for name in sorted(shared)]
            line = [change(results, compiles) for compiles in range(most + 1)]
            rows.append((corpus, algorithm, len(shared), line))
            told = " ".join(f"{line[at]:+8.2%}" if at <= most else f"{'':8}" for at in options.at)
            print(f"{corpus:16} {algorithm:10} {len(shared):7} {told}")
    if options.picture:
        draw(corpora, rows, options.picture)


def draw(corpora: Sequence[str], rows: Sequence[tuple[str, str, int, list[float]]], path: Path) -> None:
    """Draw a panel for each corpus."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(corpora), figsize=(4.6 * len(corpora), 3.8), squeeze=False)
    colors = {name: f"C{number}" for number, name in enumerate(sorted({algorithm for _, algorithm, *_ in rows}))}
    for corpus, axes in zip(corpora, panels[0], strict=True):
        for name, algorithm, count, line in rows:
            if name == corpus:
                changes = [100 * value for value in line]
                axes.step(range(len(line)), changes, where="post", color=colors[algorithm], label=algorithm)
                axes.set_title(f"{corpus}, {count} module{'s' if count > 1 else ''}", fontsize=10)
        axes.set_xlabel("compiles")
        axes.set_ylabel(".text against clang, %")
        axes.axhline(0, color="black", linewidth=0.8)
        axes.legend(fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
