"""The benchmark of docs/results/benchmark.md: environment, datasets, levels, split, search modules, and its methods."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.opening import BENCHMARK, parse_corpora
from mlgo_gym.corpus.parts import Part

VERSION = 2
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
    key = f"search:{_dataset(name)}/{name.partition('/')[2]}"
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()


TRAIN = ("builtin", "brotli", "hiredis", "pillow", "box2d-py", "fasttext")
"""Corpora of the small trainings of this table: their training split."""

EXAMPLE = "example"
"""The policy of a method of `benchmarks.learning`, which trains it."""


@dataclass(frozen=True, slots=True)
class Row:
    """A method.

    Attributes:
        name: its name in the table.
        policy: the evaluated policy, the start of a search, or `EXAMPLE`; `{model}` is the file that `train` writes.
        train: the training command, or an empty text; it names `{seed}` and `{part}`, the training split of `TRAIN`.
        seeds: number of seeds.
        levels: the levels.
        budget: budget of training, in words.
        searches: whether it searches, with each of `SEARCH_BUDGETS`.
    """

    name: str
    policy: str
    train: str = ""
    seeds: int = 1
    levels: tuple[str, ...] = LEVELS
    budget: str = ""
    searches: bool = False


_CLONE = "mlgo-gym train clone --corpus {part} --rounds 1 --episodes 48 --seed {seed} --output {model}"

POLICIES = (
    Row("`last-call`", "last-call"),
    Row("`default`: clang's own choices", "default"),
    *(Row(f"`threshold:{limit}`", f"threshold:{limit}") for limit in (0, 5, 20, 50)),
    Row("plain clang, `-inline-threshold=5`", "clang:-mllvm,-inline-threshold=5"),
    Row("`never`", "never"),
    Row("`always`", "always"),
    Row("`random`", "random", seeds=3),
    Row("behaviour cloning of clang", "mlp:{model}", _CLONE, seeds=3, budget="48 compiles"),
    Row("PPO, credit, random weights", EXAMPLE, seeds=3),
    Row("PPO, one reward per module, random weights", EXAMPLE, seeds=3),
    Row("policy iteration, random weights", EXAMPLE, seeds=3, levels=("Os",)),
    Row("policy iteration, from labels", EXAMPLE, seeds=3, levels=("Oz",)),
    Row("PPO on labels", EXAMPLE, seeds=3),
    Row("DQN on labels", EXAMPLE, seeds=3),
)

OF_SEVERAL = {
    "best threshold per module (oracle)": tuple(f"threshold:{limit}" for limit in (0, 5, 20, 50)),
    "smallest of four compiles": ("never", "threshold:0", "default", "last-call"),
}
"""Rows of several policies, with the smallest object of each module; the second is that of a list in `MLGO_POLICY`."""

SEARCHES = (Row("search: bundles", "default", searches=True),)
