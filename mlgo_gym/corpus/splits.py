"""Seeded draws of modules, and the parts of a split: the hash that decides, and the modules that stay together."""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args

from mlgo_gym.corpus.module import Modules
from mlgo_gym.errors import CorpusError
from mlgo_gym.storage.cache import JsonCache, key_of

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
    """Return `count` names drawn in turn from `strata` (≥ 1) equally large groups of names, sorted by size in bytes."""
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


Facts = tuple[str, ...]
"""Source, source text and bitcode of a module; modules that share one belong to one group."""

MIN_CACHED_MODULES = 1000
"""Size from which the facts of a corpus are cached on disk; smaller ones are read as fast."""

_cache = JsonCache("split-facts")


def first_of_groups(modules: Iterable[tuple[str, Facts]]) -> Mapping[str, str]:
    """Return the alphabetically first name of each name's group: the connected names that share a fact."""
    owners: dict[str, list[str]] = defaultdict(list)
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while parents[name] != name:
            parents[name] = parents[parents[name]]
            name = parents[name]
        return name

    for name, facts in modules:
        parents[name] = name
        for fact in facts:
            owners[fact].append(name)
    for group in owners.values():
        for other in group[1:]:
            one, two = sorted((root(group[0]), root(other)))
            parents[two] = one
    return {name: root(name) for name in parents}


def read_facts(names: Iterable[str], modules: Modules, corpus: str) -> Mapping[str, Facts]:
    """Return the facts of modules by name; empty for a module that cannot be read.

    `corpus` identifies the corpus in the cache, such as its path.
    """
    ordered = list(names)
    if len(ordered) < MIN_CACHED_MODULES:
        return {name: _facts(modules, name) for name in ordered}
    key = key_of(corpus, len(ordered), ordered[0], ordered[-1])
    cached = _cache.get(key) or {}
    current: dict[str, Facts] = {}
    all_facts: dict[str, Facts] = {}
    for name in ordered:
        stamp = _stamp_of(*modules.files(name))
        known = cached.get(stamp) if stamp is not None else None
        all_facts[name] = tuple(known) if known else _facts(modules, name)
        if stamp is not None and all_facts[name]:
            current[stamp] = all_facts[name]
    if current.keys() != cached.keys():
        _cache.put(key, dict(current))
    return all_facts


def _stamp_of(bitcode: Path, *others: Path) -> str | None:
    """Return a text that changes with files: path, inode, size and times; None without the bitcode.

    The change time cannot be set by programs, so a copy with an old date differs.
    """
    parts = [str(bitcode)]
    for number, path in enumerate((bitcode, *others)):
        with suppress(OSError):
            status = path.stat()
            parts.append(f"{number} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}")
    return " ".join(parts) if len(parts) > 1 and parts[1].startswith("0 ") else None


def _facts(modules: Modules, name: str) -> Facts:
    try:
        module = modules.load(name)
        source, text, bitcode = (module.metadata.get(key) for key in ("source", "source_sha256", "bitcode_sha256"))
        facts = [f"source {source}"] if isinstance(source, str) and source and text else []
        facts += [f"text {text}"] if isinstance(text, str) else []
        return (*facts, f"bitcode {bitcode if isinstance(bitcode, str) else module.digest()}")
    except (CorpusError, OSError):
        return ()  # opening the module raises the error
