"""Evolves rules of each level in several seeds by examples/evolve_rules.py, beside published rules.

    python -m benchmarks.evolution [--levels Oz Os] [--minutes 6] [--work runs/rules]

Writes docs/results/evolved_rules.json: of each level the change by the published rules and the curve and the best rule
of each seed, on the same training modules. The same command resumes an interrupted run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import mlgo_gym.policies
from benchmarks.measuring import RESULTS, ROOT, command_line, write_json
from benchmarks.protocol import LEVELS
from mlgo_gym import score

PUBLISHED: dict[str, str | Path] = {
    "threshold:5": "cost_estimate < 5",
    "last-call": Path(mlgo_gym.policies.__file__).with_name("bundled") / "last-call.rule",
}


def main() -> None:
    """Evolve the rules that are missing, and write all."""
    parser = command_line(__doc__)
    parser.add_argument("--minutes", type=float, default=6, help="CPU minutes of each seed (default: 6)")
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=list(LEVELS), help="levels (default: both)")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds (default: 3)")
    parser.add_argument("--modules", type=int, default=32, help="training modules that judge a rule (default: 32)")
    parser.add_argument("--work", type=Path, default=Path("runs/rules"), help="folder of all states")
    parser.add_argument("--output", type=Path, default=RESULTS / "evolved_rules.json", help="file of the results")
    options = parser.parse_args()
    results = {}
    for level in options.levels:
        folder = options.work / level
        words = [folder, level, options.minutes]
        for seed in range(options.seeds):
            program = [sys.executable, ROOT / "examples" / "evolve_rules.py", *words, seed, options.modules]
            subprocess.run([str(word) for word in program], check=True)
        results[level] = {
            **{
                name: score(rule, level=level, compiles=options.modules, explain=False).value
                for name, rule in PUBLISHED.items()
            },
            "curves": [
                json.loads((folder / f"state-{seed}.json").read_text())["curve"] for seed in range(options.seeds)
            ],
            "rules": [(folder / f"best-{seed}.rule").read_text() for seed in range(options.seeds)],
        }
    write_json(options.output, results)


if __name__ == "__main__":
    main()
