"""Bias and noise of the gradients that `benchmarks/credit.py` learns by: of the module's reward, and of credit.

    python benchmarks/credit_gradients.py --json docs/results/credit_gradients.json

A policy leaves clang's own choice in one of ten decisions. Its logit is linear in the features, and so the gradient of
REINFORCE at one episode is the sum over its decisions of return, times surprise (the action less its probability),
times features. With the module's reward all returns are the logarithm of how much smaller the module became, less the
mean of the other episodes; this is unbiased. With credit each return is the decision's own bytes, as a share of the
module's; with `credit, cut` they are cut off at three root mean squares of a batch of four episodes, as that learner
does.

clang stops asking, and inlines nothing more, once the module has twice as many instructions as in the beginning. A
policy that deviates at random can come to that in most of its episodes, and what follows then is no single decision's
doing; `--growth` moves that limit. How many episodes asked less than four fifths of the questions of clang's own
choices is printed as well.

The episodes of a module are put into two halves at random, many times. The product of one half's mean gradient with the
other half's is the length of the true gradient squared without its noise; the same across two kinds of return gives
their angle without the noise. So for each kind it prints: the noise of one episode, as a multiple of the gradient's
length (squared, this is the number of episodes that it takes until they are equal); and the cosine with the true
gradient, that of the module's reward.
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

CUT = 3.0
BATCH = 4
SPLITS = 200
FEW = 0.8

Floats = npt.NDArray[np.float64]


def features(env: InlineEnv, decisions: tuple[PlacedDecision, ...]) -> Floats:
    """Return the logarithms of the features; float64 of shape (decisions, features)."""
    header = env.task.headers[0]
    records = np.frombuffer(b"".join(decision.payload for decision in decisions), header.dtype)
    columns = [records[spec.name].reshape(len(records)).astype(np.float64) for spec in header.features]
    values = np.stack(columns, 1)
    signs: Floats = np.sign(values)
    return signs * np.log1p(np.abs(values))


def gradients(env: InlineEnv, name: str, episodes: int, share: float, seed: int) -> dict[str, Floats]:
    """Play episodes of a module; return the gradients of each by kind, float64 of shape (episodes, features)."""
    compilation = env.compilation(env.corpus.module(name))
    chance = np.random.default_rng(seed)

    def deviating(decision: Decision) -> int:
        return int(env.task.default_action(decision)) ^ int(chance.random() < share)

    reference = compile_placed(compilation, env.task, lambda each: int(env.task.default_action(each)), TIMEOUT)
    known = features(env, reference.decisions)
    middle, scale = known.mean(0), known.std(0) + 1e-6
    surprises: list[Floats] = []
    shares: list[Floats] = []
    saved, asked = np.empty(episodes), np.empty(episodes)
    for number in range(episodes):
        episode = compile_placed(compilation, env.task, deviating, TIMEOUT)
        surprises.append(surprise(episode, share)[:, None] * (features(env, episode.decisions) - middle) / scale)
        shares.append(credit(reference, episode).bytes / reference.text)
        saved[number] = math.log(reference.text / episode.text)
        asked[number] = len(episode.decisions) / len(reference.decisions)
    print(f"{name:24} {np.mean(asked < FEW):.0%} of the episodes asked less than {FEW:.0%} of the questions")
    others = (saved.sum() - saved) / (episodes - 1)
    cut = []
    for number, each in enumerate(shares):
        batch = np.concatenate(shares[number // BATCH * BATCH : number // BATCH * BATCH + BATCH])
        limit = CUT * math.sqrt(float(np.square(batch).mean()))
        cut.append(each.clip(-limit, limit))
    returns = {"module": saved - others, "credit": shares, "credit, cut": cut}
    found = {}
    for kind, values in returns.items():
        of_each = zip(surprises, values, strict=True)
        found[kind] = np.stack([np.sum(of_one * np.reshape(each, (-1, 1)), axis=0) for of_one, each in of_each])
    return found


def surprise(episode: PlacedCompile, share: float) -> Floats:
    """Return each action of an episode less the probability of inlining; float64 of shape (decisions,)."""
    answers = np.array([decision.answer for decision in episode.decisions], np.float64)
    defaults = np.array([decision.default for decision in episode.decisions], np.float64)
    chances: Floats = np.where(defaults == 1, 1 - share, share)
    return answers - chances


def compare(found: dict[str, Floats], seed: int) -> dict[str, dict[str, float]]:
    """Return noise and cosine with the truth for each kind of return."""
    generator = np.random.default_rng(seed)
    count = len(found["module"])
    products: dict[tuple[str, str], float] = {}
    for _ in range(SPLITS):
        order = generator.permutation(count)
        one, other = order[: count // 2], order[count // 2 :]
        for kind in found:
            for with_kind in {kind, "module"}:
                product = float(found[kind][one].mean(0) @ found[with_kind][other].mean(0))
                products[kind, with_kind] = products.get((kind, with_kind), 0.0) + product / SPLITS
    rows = {}
    for kind, each in found.items():
        length = products[kind, kind]
        noise = float(each.var(0, ddof=1).sum())
        known = length > 0 and products["module", "module"] > 0
        cosine = products[kind, "module"] / math.sqrt(length * products["module", "module"]) if known else math.nan
        rows[kind] = {
            "noise": math.sqrt(noise / length) if length > 0 else math.inf,
            "cosine": cosine,
        }
    return rows


def main() -> None:
    """Play, compare and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--corpus", default="builtin@Os")
    parser.add_argument("--names", nargs="+", default=["c/lz", "c/btree", "cpp/lexer_parser"])
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--share", type=float, default=0.1, help="of decisions that are not clang's own choice")
    parser.add_argument("--growth", type=float, help="the factor by which a module may grow; clang's own is 2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    flags = () if arguments.growth is None else ("-mllvm", f"{GROWTH}{arguments.growth}")
    env = InlineEnv(
        corpus=open_corpus(arguments.corpus, toolchain=find_toolchain()), timeout=TIMEOUT, extra_flags=flags
    )
    rows: dict[str, Any] = {}
    for name in arguments.names:
        found = gradients(env, name, arguments.episodes, arguments.share, arguments.seed)
        rows[name] = compare(found, arguments.seed)
        for kind, row in rows[name].items():
            print(f"{name:24} {kind:12} noise {row['noise']:8.2f}  cosine {row['cosine']:+.2f}", flush=True)
        if arguments.json is not None:
            settings = {key: str(value) for key, value in vars(arguments).items() if key != "json"}
            arguments.json.write_text(json.dumps({**settings, "modules": rows}, indent=1) + "\n")
    env.close()


if __name__ == "__main__":
    main()
