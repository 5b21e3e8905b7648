"""Seeded draws of modules, uniform or stratified by size, and the hash that decides the parts of a split."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, get_args

from mlgo_gym.errors import CorpusError

Part = Literal["train", "test", "fit", "valid"]
"""A part of a split: `train` and `test` cover all modules; `fit` and `valid` cover `train`."""

PARTS: tuple[Part, ...] = get_args(Part)


def draw(names: Sequence[str], count: int, *, seed: int, replacement: bool = False) -> list[str]:
    """Return `count` names drawn uniformly; one seed gives the same names. Raise `CorpusError` if there are fewer."""
    _check(len(names), count, replacement)
    generator = random.Random(seed)  # noqa: S311 - an experiment, not a secret
    if replacement:
        return [names[generator.randrange(len(names))] for _ in range(count)]
    return [names[index] for index in generator.sample(range(len(names)), count)]


def draw_stratified(
    names: Sequence[str], size: Callable[[str], int], count: int, *, strata: int, seed: int, replacement: bool = False
) -> list[str]:
    """Return `count` names drawn in turn from `strata` (≥ 1) equally large groups of names, sorted by size in bytes.

    Raises `CorpusError` if there are fewer.
    """
    if strata < 1:
        raise CorpusError(f"expected strata ≥ 1, got {strata}")
    _check(len(names), count, replacement)
    generator = random.Random(seed)  # noqa: S311 - an experiment, not a secret
    ordered = sorted(names, key=lambda name: (size(name), name))
    strata = min(strata, len(ordered))
    edges = [len(ordered) * index // strata for index in range(strata + 1)]
    groups = [ordered[start:stop] for start, stop in pairwise(edges)]
    if replacement:
        return [generator.choice(groups[index % strata]) for index in range(count)]
    for group in groups:
        generator.shuffle(group)
    drawn: list[str] = []
    while len(drawn) < count:
        drawn.extend(group.pop() for group in groups if group)
    return drawn[:count]


def is_test(key: str, fraction: float) -> bool:
    """Return whether a key is in the test part; a hash decides, so a larger fraction (0 to 1) only adds keys."""
    number = int.from_bytes(hashlib.sha256(key.encode(errors="surrogateescape")).digest()[:8], "big")
    return number < fraction * 2.0**64


def is_part(key: str, part: Part, test_fraction: float = 0.2, valid_fraction: float = 0.2) -> bool:
    """Return whether a key is in a part of a split; another hash decides between `fit` and `valid`."""
    if part == "test" or is_test(key, test_fraction):
        return part == "test" and is_test(key, test_fraction)
    return part == "train" or is_test(f"valid:{key}", valid_fraction) is (part == "valid")


def _check(available: int, count: int, replacement: bool) -> None:
    if count < 0:
        raise CorpusError(f"expected a number of modules ≥ 0, got {count}")
    if not available:
        raise CorpusError("expected modules to draw from, got none; use a larger corpus or filter less")
    if not replacement and count > available:
        raise CorpusError(
            f"expected at most {available} modules without replacement, got {count}; draw fewer, or with replacement"
        )
