"""What the two returns of `benchmarks/credit.py` say of the same decisions, and how noisily: the module's, and credit.

    python benchmarks/credit_gradients.py --json docs/results/credit_gradients.json

A policy leaves clang's own choice in one of ten decisions. The gradient of REINFORCE with respect to "inline more" in
some class of calls is the mean over episodes of the sum, over the decisions of that class, of surprise (the action less
its probability) times return. With the module's reward all returns are the bytes that the episode saved, less the mean
of the other episodes; this is unbiased. With credit each return is what the decision saved itself. Classes are what
clang itself does with a call, and its estimate of the cost. Beside each mean stands its standard error.

clang stops asking, and inlines nothing more, once the module has twice as many instructions as in the beginning. A
policy that deviates at random can come to that in most of its episodes, and what follows then is no single decision's
doing; `--growth` moves that limit. How many episodes asked less than four fifths of the questions of clang's own
choices is printed as well.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.corpus import open_corpus
from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.credit import credit
from mlgo_gym.episode.placed_compile import PlacedCompile, PlacedDecision, compile_placed
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.session.decision import Decision

TIMEOUT = 600.0

GROWTH = "-ml-advisor-size-increase-threshold="
"""By which factor the instructions of a module may grow before clang stops asking, and inlines nothing more."""

FEW = 0.8

LAST_CALL = 15000.0
"""What clang takes off its estimate for the last call of a function."""

CLASSES = (
    ("inlines, cost below 0", 1, -math.inf, 0.0),
    ("inlines, cost 0 or more", 1, 0.0, math.inf),
    ("keeps", 0, -math.inf, math.inf),
)
"""Classes of calls: what clang does, as a number, and the bounds of its estimate."""

Floats = npt.NDArray[np.float64]


def belongs(decision: PlacedDecision, choice: int, least: float, most: float) -> bool:
    """Return whether a decision is of a class."""
    last = decision.estimate < -LAST_CALL / 2
    return decision.default == choice and least <= decision.estimate + LAST_CALL * last < most


def surprise(episode: PlacedCompile, share: float) -> Floats:
    """Return each action of an episode less the probability of inlining; float64 of shape (decisions,)."""
    answers = np.array([decision.answer for decision in episode.decisions], np.float64)
    defaults = np.array([decision.default for decision in episode.decisions], np.float64)
    chances: Floats = np.where(defaults == 1, 1 - share, share)
    return answers - chances


def measure(env: InlineEnv, name: str, episodes: int, share: float, seed: int) -> dict[str, Any]:
    """Play episodes of a module, and return the figures of each class, in bytes per episode."""
    compilation = env.compilation(env.corpus.module(name))
    chance = np.random.default_rng(seed)

    def deviating(decision: Decision) -> int:
        return int(env.task.default_action(decision)) ^ int(chance.random() < share)

    reference = compile_placed(compilation, env.task, lambda each: int(env.task.default_action(each)), TIMEOUT)
    played = [compile_placed(compilation, env.task, deviating, TIMEOUT) for _ in range(episodes)]
    saved = np.array([reference.text - episode.text for episode in played], np.float64)
    returns = saved - (saved.sum() - saved) / (episodes - 1)
    rows = []
    for title, choice, least, most in CLASSES:
        counts, sums = np.empty(episodes), np.empty((episodes, 2))
        for number, episode in enumerate(played):
            within = np.array([belongs(decision, choice, least, most) for decision in episode.decisions])
            surprised = surprise(episode, share) * within
            counts[number] = within.sum()
            sums[number] = surprised.sum() * returns[number], surprised @ credit(reference, episode).bytes
        error = sums.std(0, ddof=1) / math.sqrt(episodes)
        rows.append(
            {
                "class": title,
                "decisions": float(counts.mean()),
                "module": {"mean": float(sums[:, 0].mean()), "standard_error": float(error[0])},
                "credit": {"mean": float(sums[:, 1].mean()), "standard_error": float(error[1])},
            }
        )
    asked = np.array([len(episode.decisions) for episode in played]) / len(reference.decisions)
    return {"module": name, "text": reference.text, "stopped": float(np.mean(asked < FEW)), "classes": rows}


def main() -> None:
    """Play, compare and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--corpus", default="builtin@Os")
    parser.add_argument("--names", nargs="+", default=["c/lz", "c/btree", "cpp/lexer_parser"])
    parser.add_argument("--episodes", type=int, default=120)
    parser.add_argument("--share", type=float, default=0.1, help="of decisions that are not clang's own choice")
    parser.add_argument("--growth", type=float, help="the factor by which a module may grow; clang's own is 2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    flags = () if arguments.growth is None else ("-mllvm", f"{GROWTH}{arguments.growth}")
    corpus = open_corpus(arguments.corpus, toolchain=find_toolchain())
    env = InlineEnv(corpus=corpus, timeout=TIMEOUT, extra_flags=flags)
    found: list[dict[str, Any]] = []
    print("| module | stopped | clang | decisions | module's reward | credit |\n|---|---|---|---|---|---|")
    for name in arguments.names:
        found.append(measure(env, name, arguments.episodes, arguments.share, arguments.seed))
        for row in found[-1]["classes"]:
            told = (f"{row[kind]['mean']:+.0f} ± {row[kind]['standard_error']:.0f}" for kind in ("module", "credit"))
            cells = (name, f"{found[-1]['stopped']:.0%}", row["class"], f"{row['decisions']:.0f}", *told)
            print(f"| {' | '.join(cells)} |", flush=True)
        if arguments.json is not None:
            settings = {key: str(value) for key, value in vars(arguments).items() if key != "json"}
            arguments.json.write_text(json.dumps({**settings, "modules": found}, indent=1) + "\n")
    env.close()


if __name__ == "__main__":
    main()
