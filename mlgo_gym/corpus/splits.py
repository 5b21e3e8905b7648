"""The parts of a split: the hash that decides, and the modules that stay together."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from mlgo_gym.corpus.module import Modules
from mlgo_gym.errors import CorpusError

Part = Literal["train", "test", "fit", "valid"]
"""A part of a split: `train` and `test` cover all modules; `fit` and `valid` cover `train`."""

PARTS: tuple[Part, ...] = get_args(Part)


def is_test(key: str, fraction: float) -> bool:
    """Return whether a key is in the test part; a hash decides, so a larger fraction (0 to 1) only adds keys."""
    number = int.from_bytes(hashlib.sha256(key.encode(errors="surrogateescape")).digest()[:8], "big")
    return number < fraction * 2.0**64


def is_part(key: str, part: Part, test_fraction: float = 0.2) -> bool:
    """Return whether a key is in a part of a split; another hash puts a fifth of `train` into `valid`."""
    if part == "test" or is_test(key, test_fraction):
        return part == "test" and is_test(key, test_fraction)
    return part == "train" or is_test(f"valid:{key}", 0.2) is (part == "valid")


Facts = tuple[str, ...]
"""Source, source text and bitcode of a module; modules that share one belong to one group."""


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


def read_facts(modules: Modules, name: str) -> Facts:
    """Return the facts of a module; empty if it cannot be read."""
    try:
        module = modules.load(name)
        source, text, bitcode = (module.metadata.get(key) for key in ("source", "source_sha256", "bitcode_sha256"))
        facts = [f"source {source}"] if isinstance(source, str) and source and text else []
        facts += [f"text {text}"] if isinstance(text, str) else []
        return (*facts, f"bitcode {bitcode if isinstance(bitcode, str) else module.digest()}")
    except (CorpusError, OSError):
        return ()  # opening the module raises the error
