"""Episodes under a policy, and networks with random weights."""

import sys
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym import CompilerEnv, Policy
from mlgo_gym.integrations.normalize_features import record_observations
from mlgo_gym.policies.network import Floats, Network, Normalization


class Trap:
    """An object whose pickle runs code."""

    def __reduce__(self) -> tuple[object, ...]:
        return (sys.exit, ("a file has run code",))


def play(env: CompilerEnv, policy: Policy, module: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the actions of an episode, and its last info; an illegal action is a failure."""
    observation, info = env.reset(options={"module": module})
    actions, terminated = [], False
    while not terminated:
        actions.append(policy.act(observation, info))
        assert env.action_space.contains(actions[-1]) or actions[-1] in (0, 1)
        observation, _, terminated, truncated, info = env.step(actions[-1])
        assert not info.get("illegal_action")
        assert not truncated, info
    return actions, info


def random_network(
    names: tuple[str, ...], *sizes: int, activation: str = "relu", normalization: Normalization | None = None
) -> Network:
    generator = np.random.default_rng(2)
    shapes = list(zip((len(names), *sizes[:-1]), sizes, strict=True))
    weights = tuple(generator.normal(size=shape).astype(np.float32) for shape in shapes)
    biases = tuple(generator.normal(size=size).astype(np.float32) for size in sizes)
    return Network(names, weights, biases, activation, normalization)


def shifted(network: Network, outputs: Any) -> Network:
    """Return a network with numbers added to its outputs."""
    return replace(network, biases=(*network.biases[:-1], network.biases[-1] + np.float32(outputs)))


def balanced(network: Network, rows: Floats) -> Network:
    """Return a network shifted so that each output is the largest for some rows, or a single one changes its sign."""
    return shifted(network, -np.median(network(rows), axis=0))


def featured_network(
    env: gym.Env[Any, Any], outputs: int, activation: str = "relu", hidden: tuple[int, ...] = (8, 5)
) -> tuple[Network, Floats]:
    """Return a balanced network of all features of an environment but the last, and rows of these features."""
    names: tuple[str, ...] = env.get_wrapper_attr("feature_names")[:-1]
    recorded = record_observations(env, observations=30)[:, :-1]
    random = np.random.default_rng(3).normal(0, 50, (300, len(names))).astype(np.float32)
    rows = np.concatenate([recorded, random])
    network = random_network(names, *hidden, outputs, activation=activation)
    return balanced(replace(network, normalization=Normalization.fit(rows, names)), rows), rows


def decisions(network: Network, rows: Floats) -> list[int]:
    """Return the decision of a network at each row; one output is the logit of yes."""
    outputs = network(rows)
    return list((outputs[:, 0] > 0).astype(int) if outputs.shape[1] == 1 else outputs.argmax(1))
