"""Rows of the tables of docs/results/benchmark.md: methods, with the commands that train their policies."""

from __future__ import annotations

from dataclasses import dataclass

ALL = ("Oz", "Os")

TRAIN = ("builtin", "zstd", "lz4", "brotli", "box2d-py", "fasttext")
"""Corpora of the small trainings of this table: their training split."""

BUNDLED = {"Oz": "inline-oz", "Os": "inline-os"}
"""The bundled policy of each level."""

EXAMPLE = "example"
"""The policy of a method of `benchmarks.learning`, which trains it."""


@dataclass(frozen=True, slots=True)
class Row:
    """A method.

    Attributes:
        name: its name in the table.
        policy: the evaluated policy, or `EXAMPLE`; `{model}` is the file that `train` writes, `{bundled}` one of
            `BUNDLED`.
        train: the training command, or an empty text; it names `{seed}` and `{part}`, the training split of `TRAIN`.
        seeds: number of seeds.
        levels: the levels.
        budget: budget of training, in words.
    """

    name: str
    policy: str
    train: str = ""
    seeds: int = 1
    levels: tuple[str, ...] = ALL
    budget: str = ""


@dataclass(frozen=True, slots=True)
class Search:
    """A search: its name, and the policy that it starts from."""

    name: str
    start: str = "default"
    seeds: int = 1
    levels: tuple[str, ...] = ALL


_CLONE = "mlgo-gym train clone --corpus {part} --rounds 1 --episodes 48 --seed {seed} --output {model}"

POLICIES = (
    Row("bundled policy", "{bundled}"),
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

_FOUR = ("never", "threshold:0", "default", "last-call")

OF_SEVERAL = {
    "best threshold per module (oracle)": tuple(f"threshold:{limit}" for limit in (0, 5, 20, 50)),
    "smallest of four compiles": _FOUR,
    "smallest of five compiles": (*_FOUR, "{bundled}"),
}
"""Rows of several policies, with the smallest object of each module; the second is `MLGO_POLICY=smallest`."""

SEARCHES = (
    Search("search: bundles"),
    Search("search: bundles, from the bundled policy", "{bundled}"),
)
