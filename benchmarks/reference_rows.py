"""The rows of docs/benchmark.md's table: methods, with the commands that make their policies."""

from __future__ import annotations

from dataclasses import dataclass

ALL = ("Oz", "Os")

TRAIN = ("builtin", "zstd", "lz4", "brotli", "box2d-py", "fasttext")
"""What the small trainings of this table learn from: the training split of these, or its part `fit`."""

BOX = {"Oz": "inline-oz", "Os": "inline-os"}
"""The policy in the box of each level, which sees calls."""

PLAIN = {level: f"{name}-plain" for level, name in BOX.items()}
"""The one that sees clang's features alone."""


@dataclass(frozen=True, slots=True)
class Row:
    """A method.

    Attributes:
        name: what the table calls it.
        policy: what is evaluated; `{model}` is the file that `train` makes, `{box}` the policy in the box, `{plain}`
            the one that sees clang's features alone.
        train: the command that makes it, if one does: `{level}`, `{seed}`, `{corpus}`, `{part}` (the corpus's training
            part), `{jobs}` and `{plain_file}` are filled in.
        seeds: how many seeds it is done with.
        levels: at which levels.
        budget: what training took, in words.
    """

    name: str
    policy: str
    train: str = ""
    seeds: int = 1
    levels: tuple[str, ...] = ALL
    budget: str = ""


@dataclass(frozen=True, slots=True)
class Search:
    """A search.

    Attributes:
        name: what the table calls it.
        algorithm: its name for `mlgo-gym search`.
        start: the policy that it begins with; `{box}` is the policy in the box.
        seeds: how many seeds it is done with.
        levels: at which levels.
    """

    name: str
    algorithm: str
    start: str = "default"
    seeds: int = 1
    levels: tuple[str, ...] = ALL


_PPO = "python examples/ppo_credit.py {corpus} 300 {model} {reward} {seed}"
_EVOLVE = (
    "mlgo-gym train evolve {plain_file} --corpus {part} --generations 20 --directions 6 --best 3 --modules 6 "
    "--deviation 0.02 --step 0.001 --jobs {jobs} --output {model}"
)

POLICIES = (
    Row("policy in the box", "{box}"),
    Row("policy in the box, clang's features alone", "{plain}"),
    Row("clang's own choices over the channel", "default"),
    Row("`threshold:0`", "threshold:0"),
    Row("`threshold:5`: clang's own at -Oz", "threshold:5"),
    Row("`threshold:20`", "threshold:20"),
    Row("`threshold:50`: clang's own at -Os", "threshold:50"),
    Row("never", "never"),
    Row("always", "always"),
    Row("random", "random", seeds=3),
    Row(
        "behaviour cloning of clang, which does not see its choice",
        "mlp:{model}",
        "mlgo-gym train clone --corpus {part} --rounds 1 --episodes 48 --seed {seed} --output {model}",
        seeds=3,
        budget="48 compiles",
    ),
    Row(
        "the best of four baselines, imitated",
        "mlp:{model}",
        "mlgo-gym train best-of --corpus {part} --baseline default --baseline threshold:0 --baseline threshold:20 "
        "--baseline never --largest 60000 --limit 60 --jobs {jobs} --seed {seed} --output {model}",
        budget="60 modules, 5 or 6 compiles of each",
    ),
    Row("PPO, the module's reward", "mlp:{model}", _PPO.replace("{reward}", "module"), 3, budget="300 compiles"),
    Row("PPO, credit", "mlp:{model}", _PPO.replace("{reward}", "credit"), 3, budget="300 compiles"),
    Row("evolution from the box's network of clang's features", "mlp:{model}", _EVOLVE, budget="1,440 compiles"),
    Row(
        "CMA-ES from the box's of clang's features",
        "mlp:{model}",
        f"{_EVOLVE} --optimiser cma",
        budget="1,440 compiles",
    ),
)

THRESHOLDS = "threshold:"
"""How the policies of an oracle begin."""

ORACLE = "the best of these thresholds for each module, or clang (oracle)"
"""The row that is made of all thresholds."""

SMALLEST = "the smallest of four: never, `threshold:0`, clang's own, the box's of clang's features (4 compiles)"
"""The row of what `MLGO_POLICY=smallest` compiles by."""

MADE_OF = {
    SMALLEST: ("never", "threshold:0", "default", "{plain}"),
    "the smallest of five: these and the box (5 compiles)": ("never", "threshold:0", "default", "{plain}", "{box}"),
}
"""Rows that are made of others: of each module the smallest object."""

SEARCHES = (
    Search("search: greedy", "greedy"),
    Search("search: bundles", "bundles"),
    Search("search: bundles, from the box", "bundles", "{box}"),
    Search("search: beam", "beam"),
    Search("search: hill climbing", "hill_climb", seeds=3),
    Search("search: tree (MCTS)", "mcts"),
    Search("search: random", "random", seeds=3),
)
