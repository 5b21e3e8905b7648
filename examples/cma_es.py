"""CMA-ES improves the weights of a network against the size of whole modules, without gradients or credit.

It starts from a network of `mlgo-gym train`, and keeps the best checkpoint on validation modules. Thousands of compiles
move a good network by less than its interval: labels learn from far fewer.

pip install '.[tools]' cmaes   # in a clone of mlgo-gym
python cma_es.py START [CORPUS] [COMPILES] [FILE]
mlgo-gym evaluate mlgo/Inline-v0 --corpus builtin@Oz --split test --policy mlp:FILE
"""

import dataclasses
import math
import sys

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from cmaes import SepCMA

from mlgo_gym import BestCheckpoint, CompilerEnv, evaluate, open_corpus
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.network import Network

MODULES, POPULATION = 4, 8
"""Modules that each sample of a generation compiles, and samples of a generation."""


def with_weights(network: Network, values: npt.NDArray[np.float64]) -> Network:
    """Return a network of the same shape with other weights."""
    ends = np.cumsum([weight.size for weight in network.weights])[:-1]
    pieces = np.split(values.astype(np.float32), ends)
    weights = [piece.reshape(weight.shape) for piece, weight in zip(pieces, network.weights, strict=True)]
    return dataclasses.replace(network, weights=tuple(weights))


def mean_cost(env: CompilerEnv, network: Network, modules: list[str]) -> float:
    """Return the mean logarithm of the size over that of clang."""
    policy, total = MlpPolicy(env, network), 0.0
    for module in modules:
        observation, info = env.reset(options={"module": module})
        over = False
        while not over:
            observation, reward, terminated, truncated, info = env.step(policy.act(observation, info))
            total += math.log1p(-float(reward))  # 0 before the end; the mean is a geometric mean's logarithm
            over = terminated or truncated
    return total / len(modules)


def main(
    start_file: str, corpus: str = "builtin@Oz:train", compiles: str = "320", file: str = "cma_es.safetensors"
) -> None:
    """Improve the network with a number of compiles, and print a table of it, a rule, and clang."""
    modules, generator = open_corpus(corpus), np.random.default_rng(0)
    env = gym.make("mlgo/Inline-v0", corpus=modules.split("fit"), callee_features=True).unwrapped
    assert isinstance(env, CompilerEnv)
    names = [name for name in env.corpus.names if env.decisions(env.corpus.module(name))]
    start = Network.load(start_file)
    mean = np.concatenate([weight.ravel() for weight in start.weights]).astype(np.float64)
    search = SepCMA(mean, sigma=0.05 * float(mean.std()), population_size=POPULATION, seed=1)
    best = BestCheckpoint("mlgo/Inline-v0", modules.split("valid"), file)
    best.offer(f"mlp:{start_file}")
    for generation in range(max(1, int(compiles) // (MODULES * POPULATION))):
        drawn = [str(name) for name in generator.choice(names, min(MODULES, len(names)), replace=False)]
        samples = [search.ask() for _ in range(POPULATION)]
        search.tell([(sample, mean_cost(env, with_weights(start, sample), drawn)) for sample in samples])
        with_weights(start, search.mean).save(f"{file}.last")
        change = best.offer(f"mlp:{file}.last")
        done = (generation + 1) * MODULES * POPULATION
        print(f"{done} compiles: {change:+.2%} on validation modules, best {best.change:+.2%}", flush=True)
    env.close()
    policies = {"trained": best.policy, "threshold": "threshold:5", "clang": "default"}
    print(evaluate("mlgo/Inline-v0", corpus=modules.split("test"), policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
