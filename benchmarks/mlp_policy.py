"""How long a decision of the policy `mlp:FILE` takes, and whether it decides as the same network does in PyTorch.

    python benchmarks/mlp_policy.py --corpus zstd --observations 10000

Two hidden layers of 64; the time is that of `act()`: features, normalization, network and choice, in processor time of
this process, so that it holds on a busy machine. Without torch only the time is measured.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path

import gymnasium as gym
import numpy as np

from mlgo_gym.envs import InlineEnv
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import METHODS, Floats, Normalization
from mlgo_gym.policies.observation_samples import record_observations

TARGET_US = 20.0
"""The most microseconds that a decision may take."""

HIDDEN = 64
ROUNDS = 5


def random_network(rows: Floats, names: tuple[str, ...], method: str) -> Network:
    """Return a network with random weights of the size that PyTorch starts with."""
    chance = np.random.default_rng(0)
    widths = [len(names), HIDDEN, HIDDEN, 2]
    shapes = list(pairwise(widths))
    weights = tuple((chance.uniform(-1, 1, shape) / shape[0] ** 0.5).astype(np.float32) for shape in shapes)
    biases = tuple(np.zeros(shape[1], np.float32) for shape in shapes)
    return Network(names, weights, biases, "tanh", Normalization.fit(rows, names, method))


def microseconds(policy: MlpPolicy, rows: Floats) -> float:
    """Return the processor time of one decision, the least of a few rounds."""
    rounds = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for row in rows:
            policy.act(row, {})
        rounds.append((time.process_time() - started) / len(rows) * 1e6)
    return min(rounds)


def deviations(network: Network, rows: Floats) -> int | None:
    """Return on how many observations PyTorch decides otherwise; None without PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    assert network.normalization is not None
    values = torch.from_numpy(network.normalization(rows))
    for number, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        values = torch.nn.functional.linear(values, torch.from_numpy(weight.T), torch.from_numpy(bias))
        values = values if number == len(network.weights) - 1 else torch.tanh(values)
    ours = np.array([network(row).argmax() for row in rows])
    return int((values.numpy().argmax(1) != ours).sum())


def main() -> None:
    """Print a table, and write JSON where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="builtin")
    parser.add_argument("--observations", type=int, default=1_000)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    env = gym.make("mlgo/Inline-v0", corpus=options.corpus).unwrapped
    assert isinstance(env, InlineEnv)
    rows = record_observations(env, observations=options.observations)
    distinct = len({row.tobytes() for row in rows})
    print(f"{len(rows)} recorded observations of {options.corpus}, {distinct} of them distinct")
    print(f"{'normalization':<14} {'us/decision':>12} {'other than torch':>17}")
    figures: dict[str, dict[str, float | None]] = {}
    for method in METHODS:
        network = random_network(rows, env.feature_names, method)
        policy = MlpPolicy(env, network)
        figures[method] = {"microseconds": microseconds(policy, rows), "deviations": deviations(network, rows)}
        print(f"{method:<14} {figures[method]['microseconds']:>12.1f} {figures[method]['deviations']!s:>17}")
    worst = max(figure["microseconds"] or 0 for figure in figures.values())
    print(f"at most {TARGET_US:g} us wanted: {'met' if worst <= TARGET_US else 'MISSED'}")
    if options.json:
        options.json.write_text(json.dumps({"observations": len(rows), "distinct": distinct, **figures}, indent=2))


if __name__ == "__main__":
    main()
