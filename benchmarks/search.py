"""Change against clang that searches find on a sample of a corpus, by algorithm and number of compiles.

    python -m benchmarks.search --corpus zstd --algorithms greedy bundles --budgets 10 50 --json runs/search.json

A search with a smaller budget is the beginning of one with a larger budget. `benchmarks.reference` has the searches of
the benchmark, and `benchmarks.fork` the price of a fork against a replay.
"""

from __future__ import annotations

import random
import statistics
from pathlib import Path
from typing import Any

from benchmarks.measuring import Table, command_line, facts, write_json
from mlgo_gym.envs import InlineEnv
from mlgo_gym.scheduling import Execution
from mlgo_gym.search import CorpusSearch


def sample(corpus: str, most: int, count: int) -> list[str]:
    """Return modules with 1 to `most` decisions; a smaller sample is the beginning of a larger one."""
    with InlineEnv(corpus=corpus) as env:
        names = sorted(module.name for module in env.with_decisions(1, most))
    return random.Random(0).sample(names, len(names))[:count]


def main() -> None:
    """Search, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--corpus", default="builtin", help="any corpus of mlgo-gym (default: builtin)")
    parser.add_argument("--algorithms", nargs="+", default=["greedy", "hill_climb", "bundles", "random"])
    parser.add_argument("--budgets", type=int, nargs="+", default=[10, 50], help="compiles per module (default: 10 50)")
    parser.add_argument("--sample", type=int, default=10, help="number of modules (default: 10)")
    parser.add_argument("--max-decisions", type=int, default=200, help="exclude larger modules (default: 200)")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes (default: 2)")
    parser.add_argument("--json", type=Path, help="JSON file to write")
    options = parser.parse_args()
    names = sample(options.corpus, options.max_decisions, options.sample)
    table = Table({"algorithm": "<12", "compiles": ">8", "used": ">6.1f", "mean": ">+8.2%", "total": ">+8.2%"})
    rows: list[dict[str, Any]] = []
    # On a busy machine one compile can take long.
    arguments = {"corpus": options.corpus, "compile_options": {"timeout": 600.0}}
    for algorithm in options.algorithms:
        search = CorpusSearch("mlgo/Inline-v0", arguments, algorithm, max(options.budgets), names=tuple(names))
        results = list(search.run(None, Execution(options.jobs)))
        if failed := [result for result in results if not result.verified]:
            raise SystemExit(f"expected verified results, got {failed[0]}")
        for compiles in options.budgets:
            found = facts([(result.cost_after(compiles), result.baseline) for result in results])
            used = statistics.mean(min(compiles, result.compiles) for result in results)
            rows.append({"algorithm": algorithm, "compiles": compiles, "used": used, **found})
            table.row(algorithm, compiles, used, found["mean"], found["total"])
    write_json(options.json, {"corpus": options.corpus, "modules": names, "rows": rows})


if __name__ == "__main__":
    main()
