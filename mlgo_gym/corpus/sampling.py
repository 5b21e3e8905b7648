"""Which modules: seeded draws, uniform or stratified by size, and the hash behind the parts of a split."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, get_args

from mlgo_gym.errors import CorpusError

Part = Literal["train", "test", "fit", "valid"]
"""A part of a split: `train` is all that is not `test`; `fit` and `valid` are `train` without the other."""

PARTS: tuple[Part, ...] = get_args(Part)


def draw(names: Sequence[str], count: int, *, seed: int, replacement: bool = False) -> list[str]:
    """Return `count` names, each as likely as the others; the same ones for the same seed.

    Raises:
        CorpusError: there are no names, or fewer than `count` without replacement.
    """
    _check(len(names), count, replacement)
    generator = random.Random(seed)  # noqa: S311 - an experiment, not a secret
    if replacement:
        return [names[generator.randrange(len(names))] for _ in range(count)]
    return [names[index] for index in generator.sample(range(len(names)), count)]


def draw_stratified(
    names: Sequence[str],
    size: Callable[[str], int],
    count: int,
    *,
    strata: int,
    seed: int,
    replacement: bool = False,
) -> list[str]:
    """Return `count` names drawn in turn from strata of equal numbers of modules, smallest modules first.

    Args:
        names: what to draw from.
        size: the bytes of bitcode of a name.
        count: how many to draw.
        strata: how many groups the names, sorted by size, are cut into.
        seed: the same seed draws the same names.
        replacement: whether a name can be drawn again.

    Raises:
        CorpusError: there are no names, fewer than `count` without replacement, or `strata` is below 1.
    """
    if strata < 1:
        raise CorpusError(f"at least one stratum is needed, found {strata}")
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
    """Return whether a key belongs to the test split: a hash decides, so it never moves to the other side.

    Args:
        key: the module's name in its own corpus, or its project.
        fraction: the part of all keys that is for testing, 0 to 1; a larger one only adds keys.
    """
    number = int.from_bytes(hashlib.sha256(key.encode(errors="surrogateescape")).digest()[:8], "big")
    return number < fraction * 2.0**64


def is_valid(key: str, fraction: float) -> bool:
    """Return whether a key of the training split is for validation; another hash than that of `is_test()` decides.

    Args:
        key: the module's name in its own corpus, or its project.
        fraction: the part of the training split that is for validation, 0 to 1.
    """
    return is_test(f"valid:{key}", fraction)


def is_part(key: str, part: Part, test_fraction: float = 0.2, valid_fraction: float = 0.2) -> bool:
    """Return whether a key belongs to a part of a split."""
    if part == "test" or is_test(key, test_fraction):
        return part == "test" and is_test(key, test_fraction)
    return part == "train" or is_valid(key, valid_fraction) is (part == "valid")


def _check(available: int, count: int, replacement: bool) -> None:
    if count < 0:
        raise CorpusError(f"a number of modules to draw was wanted, found {count}; give one of at least 0")
    if not available:
        raise CorpusError("there is no module to draw from; use a larger corpus, or filter less")
    if not replacement and count > available:
        raise CorpusError(
            f"{count} modules were wanted without replacement, and there are {available}; draw fewer, or with "
            "replacement"
        )
