"""The benchmark of docs/results/benchmark.md: environment, datasets, levels, modules, and its methods."""

from __future__ import annotations

from dataclasses import dataclass

from mlgo_gym import open_corpus
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.opening import BENCHMARK
from mlgo_gym.corpus.parts import Part
from mlgo_gym.training.pipeline import drawn_modules

VERSION = 2
"""Version of the protocol; any change of the constants below raises it."""

ENVIRONMENT = "mlgo/Inline-v0"
"""Inlining; the metric is `text` against a plain compile by the same clang with the same flags."""

LEVELS = ("Oz", "Os")
"""Optimisation levels; each is a problem with a table of its own."""

SPLIT: Part = "test"
"""The evaluated part of each dataset. Policies learn on `train` and choose checkpoints on its part `valid`."""

MODULES, LARGEST = 12, 1_000_000
"""Maximum number of modules of a project, drawn at random, and of bytes of bitcode: two projects have most of both."""

SEEDS = (0, 1, 2)
"""Seeds of random methods; each is run."""

SEARCH_COMPILES = 10
"""Compiles per module that a search may use."""

SEARCHED = {"largest": 60_000, "limit": 24, "max_per_project": 2}
"""Modules of searches, drawn at random from those with decisions: bytes of bitcode, number, number of a project."""


def protocol_corpus(level: str) -> Corpus:
    """Return the evaluated modules at one of `LEVELS`."""
    corpus = open_corpus(f"{BENCHMARK}@{level}:{SPLIT}")
    return corpus.subset(drawn_modules(corpus, 0, LARGEST, max_per_project=MODULES))


EXAMPLE = "example"
"""The policy of a method of `benchmarks.learning`, which trains it."""


@dataclass(frozen=True, slots=True)
class Row:
    """A method.

    Attributes:
        name: its name in the table.
        policy: the evaluated policy, the start of a search, or `EXAMPLE`.
        seeds: number of seeds.
        levels: the levels.
        budget: budget of training, in words.
        searches: whether it searches.
    """

    name: str
    policy: str
    seeds: int = 1
    levels: tuple[str, ...] = LEVELS
    budget: str = ""
    searches: bool = False


POLICIES = (
    Row("`last-call`", "last-call"),
    Row("`default`: clang's own choices", "default"),
    *(Row(f"`threshold:{limit}`", f"threshold:{limit}") for limit in (0, 5, 20, 50)),
    Row("plain clang, `-inline-threshold=5`", "clang:-mllvm,-inline-threshold=5"),
    Row("`never`", "never"),
    Row("`always`", "always"),
    Row("`random`", "random", seeds=3),
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
