"""Networks of random weights for an environment's features."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import Floats, Normalization
from mlgo_gym.policies.observation_samples import record_observations


def random_network(
    env: gym.Env[Any, Any], outputs: int, activation: str = "relu", hidden: tuple[int, ...] = (8, 5)
) -> tuple[Network, Floats]:
    """Return a network that sees all features but the last, and rows of those to try it on."""
    names: tuple[str, ...] = env.get_wrapper_attr("feature_names")[:-1]
    chance = np.random.default_rng(3)
    met = record_observations(env, observations=30)[:, :-1]
    rows = np.concatenate([met, chance.normal(0, 50, (300, len(names))).astype(np.float32)])
    widths = [len(names), *hidden, outputs]
    network = Network(
        names,
        tuple((chance.normal(size=shape) / 2).astype(np.float32) for shape in pairwise(widths)),
        tuple((chance.normal(size=width) / 2).astype(np.float32) for width in widths[1:]),
        activation,
        Normalization.fit(rows, names),
    )
    # No output is always the largest, nor one alone always on the same side of 0.
    bias = network.biases[-1] - np.median(network(rows), axis=0).astype(np.float32)
    even = Network(names, network.weights, (*network.biases[:-1], bias), activation, network.normalization)
    return even, rows


def decisions(network: Network, rows: Floats) -> list[int]:
    """Return what a network of two or more outputs, or with the logit of yes alone, decides at each row."""
    outputs = network(rows)
    return list((outputs[:, 0] > 0).astype(int) if outputs.shape[1] == 1 else outputs.argmax(1))
