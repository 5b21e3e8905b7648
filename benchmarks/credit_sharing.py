"""By which rule decisions should share the bytes of a function in which they meet, tried on measured decisions.

    python benchmarks/credit_sharing.py docs/results/labels/*.parquet

Measured decisions (`mlgo-gym label`) are put together at random in groups of two or four, each with a random direction.
Only the sum of a group is shown to a rule; what it gives each decision is compared with what was measured.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LAST_CALL = 15000.0
"""What clang takes off its estimate for the last call of a function."""

LARGEST = 1500
"""Decisions that moved more bytes are left out."""


def expected(slope: float, call: float) -> Callable[[Floats], Floats]:
    """Return a rule for what is expected of a decision by clang's estimate of its cost."""
    return lambda costs: slope * np.clip(costs, -200, 1500) - call


RULES: dict[str, tuple[Callable[[Floats], Floats], float | None]] = {
    "equally": (np.zeros_like, None),
    "cost / 2 - 4, the rest equally": (expected(0.5, 4.0), None),
    "cost / 2 - 4, the rest by its size + 8": (expected(0.5, 4.0), 8.0),
    "cost / 2 - 4, the rest by its size + 20": (expected(0.5, 4.0), 20.0),
    "cost / 4, the rest by its size + 20": (expected(0.25, 0.0), 20.0),
}
"""What is expected of a decision, and what is added to its size for the weight by which the rest is shared."""


def try_rule(rule: str, costs: Floats, measured: Floats, group: int, seed: int) -> list[float]:
    """Return correlation, mean and median error in bytes, and how often the sign is right where it is not 0."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(measured))[: len(measured) // group * group].reshape(-1, group)
    direction = generator.choice([-1.0, 1.0], order.shape)
    truth = measured[order] * direction
    expectation, least = RULES[rule]
    share = expectation(costs[order]) * direction
    weights = np.ones_like(share) if least is None else np.abs(share) + least
    rest = truth.sum(1, keepdims=True) - share.sum(1, keepdims=True)
    share = share + rest * weights / weights.sum(1, keepdims=True)
    error, moved = np.abs(share - truth), truth != 0
    signs = np.sign(np.round(share)) == np.sign(truth)
    correlation = np.corrcoef(share.ravel(), truth.ravel())[0, 1]
    return [float(correlation), float(error.mean()), float(np.median(error)), float(signs[moved].mean())]


def main() -> None:
    """Print a table for each file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("labels", type=Path, nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    parquet: Any = importlib.import_module("pyarrow.parquet")
    for file in arguments.labels:
        table = parquet.read_table(file, columns=["cost_estimate", "bytes"])
        costs, measured = (table[name].to_numpy().astype(np.float64) for name in ("cost_estimate", "bytes"))
        costs = np.where(costs < -LAST_CALL / 2, costs + LAST_CALL, costs)
        kept = np.abs(measured) < LARGEST
        print(f"{file.name}, {kept.sum()} decisions\n")
        print("| rule | together | correlation | mean error | median error | same sign |\n|---|---|---|---|---|---|")
        for rule in RULES:
            for group in (2, 4):
                found = try_rule(rule, costs[kept], measured[kept], group, arguments.seed)
                correlation, mean, median, signs = found
                print(f"| {rule} | {group} | {correlation:.2f} | {mean:.0f} | {median:.0f} | {signs:.0%} |")
        print()


if __name__ == "__main__":
    main()
