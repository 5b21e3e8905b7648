"""Networks with random weights for the features of an environment."""

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.integrations.normalize_features import record_observations
from mlgo_gym.policies.network import Floats, Network, Normalization
from tests.policies import episodes


def random_network(
    env: gym.Env[Any, Any], outputs: int, activation: str = "relu", hidden: tuple[int, ...] = (8, 5)
) -> tuple[Network, Floats]:
    """Return a network of all features but the last, and rows of these features."""
    names: tuple[str, ...] = env.get_wrapper_attr("feature_names")[:-1]
    chance = np.random.default_rng(3)
    recorded = record_observations(env, observations=30)[:, :-1]
    rows = np.concatenate([recorded, chance.normal(0, 50, (300, len(names))).astype(np.float32)])
    network = episodes.random_network(names, *hidden, outputs, activation=activation)
    network = replace(network, normalization=Normalization.fit(rows, names))
    # Shift the outputs so that each is the largest for some rows, or a single one changes its sign.
    bias = network.biases[-1] - np.median(network(rows), axis=0).astype(np.float32)
    return replace(network, biases=(*network.biases[:-1], bias)), rows


def decisions(network: Network, rows: Floats) -> list[int]:
    """Return the decision of a network at each row; one output is the logit of yes."""
    outputs = network(rows)
    return list((outputs[:, 0] > 0).astype(int) if outputs.shape[1] == 1 else outputs.argmax(1))
