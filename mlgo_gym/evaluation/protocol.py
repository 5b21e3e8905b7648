"""The protocol of docs/benchmark.md: what every method is measured on, so that tables of different people compare."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.sampling import Part

VERSION = 1
"""What a change of anything below raises."""

ENVIRONMENT = "mlgo/Inline-v0"
"""Inlining, and `.text` against a plain compile by the same clang with the same flags."""

LEVELS = ("Oz", "Os")
"""The optimisation levels: two problems, two tables."""

SPLIT: Part = "test"
"""What is measured; `train` is for learning, and its part `valid` for choosing."""

DATASETS = (
    "builtin", "zstd", "lz4", "brotli", "zopfli", "ujson", "hiredis", "httptools", "pyclipper", "box2d-py", "fasttext",
    "blosc", "pillow", "lupa", "pycryptodome", "pysimdjson", "jsonnet", "sentencepiece", "snappy", "lightgbm",
)  # fmt: skip
"""The datasets of the catalogue that the modules come from."""

SEEDS = (0, 1, 2)
"""Whatever depends on chance is done with each."""

SEARCH_BUDGETS = (10, 50)
"""How many compiles of a module a search may take."""

SEARCH_MODULES = 24
_SEARCH_LARGEST = 60_000
_SEARCH_MOST = 2
_SEARCH_SEED = "search"


def protocol_corpus(level: str) -> str:
    """Return the corpus of a level, as `open_corpus` takes it; its split `SPLIT` is what is measured.

    Args:
        level: one of `LEVELS`.
    """
    return ",".join(name if level == "Oz" else f"{name}@{level}" for name in DATASETS)


def search_modules(corpus: Corpus, decides: Callable[[str], bool]) -> list[str]:
    """Return the modules that searches are measured on, the same ones for everybody.

    They are the first `SEARCH_MODULES` with a decision in the order of SHA-256 of `search:DATASET/MODULE`, at most two
    of a dataset, none of more than 60,000 bytes of bitcode: a search takes a hundred compiles of each.

    Args:
        corpus: the split of a level.
        decides: whether a module, by its name, has a decision.
    """
    taken: Counter[str] = Counter()
    chosen: list[str] = []
    for name in sorted(corpus.names, key=_search_order):
        dataset = _dataset(name)
        if len(chosen) == SEARCH_MODULES:
            break
        if taken[dataset] < _SEARCH_MOST and corpus.size(name) <= _SEARCH_LARGEST and decides(name):
            taken[dataset] += 1
            chosen.append(name)
    return chosen


def _dataset(name: str) -> str:
    return name.partition("/")[0].partition("@")[0]


def _search_order(name: str) -> str:
    # The level stands in the name, and is left out, so that both levels have the same order.
    key = f"{_SEARCH_SEED}:{_dataset(name)}/{name.partition('/')[2]}"
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()
