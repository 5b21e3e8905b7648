"""The protocol of docs/results/benchmark.md: one environment, fixed datasets, levels, split and search modules."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from functools import cache

from mlgo_gym.corpus.corpus import Corpus, Part
from mlgo_gym.corpus.specification import BENCHMARK, parse_corpora

VERSION = 1
"""Version of the protocol; any change of the constants below raises it."""

ENVIRONMENT = "mlgo/Inline-v0"
"""Inlining; the metric is `text` against a plain compile by the same clang with the same flags."""

LEVELS = ("Oz", "Os")
"""Optimisation levels; each is a problem with a table of its own."""

SPLIT: Part = "test"
"""The evaluated part of each dataset. Policies learn on `train` and choose checkpoints on its part `valid`."""

SEEDS = (0, 1, 2)
"""Seeds of random methods; each is run."""

SEARCH_BUDGETS = (10, 50)
"""Compiles per module that a search may use."""

SEARCH_MODULES = 24
_SEARCH_MAX_BYTES = 60_000
_SEARCH_MAX_PER_DATASET = 2
_SEARCH_SEED = "search"


def protocol_corpus(level: str) -> str:
    """Return the corpus of one of `LEVELS`, as `open_corpus` takes it; `SPLIT` is the evaluated part."""
    return ",".join(str(spec.short) for spec in parse_corpora(f"{BENCHMARK}@{level}"))


def search_modules(corpus: Corpus, has_decisions: Callable[[str], bool]) -> list[str]:
    """Return the names of the modules on which searches are evaluated.

    They are the first `SEARCH_MODULES` with decisions in the order of SHA-256 of `search:DATASET/MODULE`. At most two
    are of one dataset, and none has more than 60,000 bytes of bitcode: a search compiles each a hundred times.
    """
    taken: Counter[str] = Counter()
    names: list[str] = []
    for name in sorted(corpus.names, key=_search_order):
        dataset = _dataset(name)
        if len(names) == SEARCH_MODULES:
            break
        suitable = taken[dataset] < _SEARCH_MAX_PER_DATASET and corpus.size(name) <= _SEARCH_MAX_BYTES
        if suitable and has_decisions(name):
            taken[dataset] += 1
            names.append(name)
    return names


@cache
def _dataset(name: str) -> str:
    return parse_corpora(name.partition("/")[0])[0].name


def _search_order(name: str) -> str:
    # The key has no level, so both levels have the same order.
    key = f"{_SEARCH_SEED}:{_dataset(name)}/{name.partition('/')[2]}"
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()
