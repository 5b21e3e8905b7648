"""Coverage of 95 % intervals over projects, by simulation; writes docs/results/intervals.json.

    python -m benchmarks.intervals [--repetitions 2000]

Effects of projects and of their modules on the logarithm of a size have equal standard deviations of 5 %. The true
change is known, so the program counts how often an interval contains it: the t interval of `Change`, and a bootstrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.measuring import RESULTS, Table, command_line, write_json
from mlgo_gym.evaluation.statistics import Change, Floats

DEVIATION = 0.05
CHANGED = 0.3
"""Share of the projects with an effect, in the setting where most have none."""

_SAMPLES, _BASELINE = 999, 1e6
_UNEQUAL = (63, 20, 15, 12, 10, 8, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 1)

SETTINGS = {
    **{f"{count} of {size}": ((size,) * count, "normal") for count, size in ((4, 15), (6, 20), (10, 8), (18, 6))},
    "6, one with 63 of 135": ((63, 22, 18, 14, 10, 8), "normal"),
    "14, of 1 to 40": ((40, 25, 12, 8, 6, 5, 4, 3, 3, 2, 2, 1, 1, 1), "normal"),
    "18, of 1 to 63, heavy tails": (_UNEQUAL, "heavy"),
    "18, of 1 to 63, most without effect": (_UNEQUAL, "sparse"),
}
"""Modules of each project, and the distribution of effects: heavy is Student's t with 3 degrees of freedom."""


def bootstrap(values: Floats, projects: npt.NDArray[np.int_], generator: np.random.Generator) -> Floats:
    """Return the percentile interval of the mean over modules; samples draw projects, then modules of each."""
    members = [np.flatnonzero(projects == project) for project in np.unique(projects)]
    drawn = generator.multinomial(len(members), np.full(len(members), 1 / len(members)), size=_SAMPLES)
    sums, counts = np.zeros(_SAMPLES), np.zeros(_SAMPLES)
    for times, modules in zip(drawn.T, members, strict=True):
        size = len(modules)
        sums += generator.multinomial(times * size, np.full(size, 1 / size)) @ values[modules]
        counts += times * size
    return np.asarray(np.quantile(sums / counts, [0.025, 0.975]))


def coverage(sizes: Sequence[int], kind: str, repetitions: int) -> dict[str, float]:
    """Return how often each interval contains the true change, and the median width of the t interval."""
    generator = np.random.default_rng(1)
    projects, count = np.repeat(np.arange(len(sizes)), sizes), len(sizes) + sum(sizes)
    hits: dict[str, list[bool]] = {"t": [], "bootstrap": []}
    widths = []
    for _ in range(repetitions):
        draws = generator.normal(size=count) if kind != "heavy" else generator.standard_t(3, count) / np.sqrt(3)
        effects = DEVIATION * (draws[projects] + draws[len(sizes) :])
        if kind == "sparse":
            has_effect = generator.random(len(sizes)) < CHANGED
            effects = np.where(has_effect[projects], effects - DEVIATION, 0.0)
        truth = -CHANGED * DEVIATION if kind == "sparse" else 0.0
        pairs = tuple((_BASELINE * ratio, _BASELINE) for ratio in np.exp(effects).tolist())
        found = Change(pairs, tuple(map(str, projects))).estimate.interval
        if found is not None:
            hits["t"].append(bool(found[0] <= np.expm1(truth) <= found[1]))
            widths.append(found[1] - found[0])
        low, high = bootstrap(effects, projects, generator)
        hits["bootstrap"].append(bool(low <= truth <= high))
    return {**{name: float(np.mean(found)) for name, found in hits.items()}, "width": float(np.median(widths))}


def main() -> None:
    """Simulate each setting, and print a line."""
    parser = command_line(__doc__)
    parser.add_argument("--repetitions", type=int, default=2000, help="draws of each setting (default: 2000)")
    parser.add_argument("--output", type=Path, default=RESULTS / "intervals.json", help="path of the results")
    options = parser.parse_args()
    table = Table({"projects": "<38", "t": ">7.1%", "bootstrap": ">9.1%", "width": ">7.3f"})
    results = {name: coverage(*setting, options.repetitions) for name, setting in SETTINGS.items()}
    for name, found in results.items():
        table.row(name, *found.values())
    write_json(options.output, results)


if __name__ == "__main__":
    main()
