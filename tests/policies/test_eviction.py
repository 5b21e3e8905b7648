"""Policies of evictions: a network that rates each live range against clang's own choice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.eviction import COLUMN_FEATURES, INPUTS, column_inputs
from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import Normalization
from tests.policies.episodes import play

MODULE = "c/bigint"


def eviction_network(seed: int = 0) -> Network:
    """Return a network with random weights that often deviates from clang's own choice."""
    generator = np.random.default_rng(seed)
    shapes = [(len(INPUTS), 8), (8, 1)]
    weights = tuple(generator.normal(size=shape).astype(np.float32) for shape in shapes)
    samples = generator.random((200, len(INPUTS))).astype(np.float32) * 4
    normalization = Normalization.fit(samples, INPUTS, "standard")
    biases = (np.zeros(8, np.float32), np.zeros(1, np.float32))
    return Network(INPUTS, weights, biases, "relu", normalization)


def shifted(network: Network, output: float) -> Network:
    """Return a network with a number added to its output."""
    return replace(network, biases=(network.biases[0], network.biases[1] + np.float32(output)))


def choices(env: CompilerEnv, network: Network, folder: Path) -> list[int]:
    """Return the actions of a network in an episode."""
    network.save(folder / "network.safetensors")
    actions, info = play(env, load_policy(f"mlp:{folder}/network.safetensors", env), MODULE)
    assert not info.get("illegal_action")
    return [int(action) for action in actions]


def test_a_large_margin_leaves_clangs_own_choices_and_none_never_does(evict: CompilerEnv, tmp_path: Path) -> None:
    default = play(evict, load_policy("default", evict), MODULE)[0]
    assert choices(evict, shifted(eviction_network(), 1e9), tmp_path) == default
    always = choices(evict, shifted(eviction_network(), -1e9), tmp_path)
    assert always[0] != default[0]


def test_the_smallest_output_wins(evict: CompilerEnv) -> None:
    generator = np.random.default_rng(0)
    features = generator.random((33, len(COLUMN_FEATURES)), np.float32)
    legal = np.array([1, 4, 32])
    rows = column_inputs(features, legal, 4, 0.5)
    assert rows.shape == (2, len(INPUTS))
    assert np.array_equal(rows[0, : len(COLUMN_FEATURES)], features[1])
    assert np.array_equal(rows[1, len(COLUMN_FEATURES) : 2 * len(COLUMN_FEATURES)], features[4])
    facts = dict(zip(INPUTS, rows[1], strict=True))
    assert (facts["is_nothing"], facts["column"], facts["default_column"], facts["legal"]) == (1, 32, 4, 3)


def test_equal_columns_have_no_difference() -> None:
    features = np.ones((33, len(COLUMN_FEATURES)), np.float32)
    row = column_inputs(features, np.array([0, 32]), 0, 0.0)[0]
    relations = [value for name, value in zip(INPUTS, row, strict=True) if "_to_" in name]
    assert relations
    assert not any(relations)


def test_it_decides_evictions_only(inline: CompilerEnv, tmp_path: Path) -> None:
    eviction_network().save(tmp_path / "network.safetensors")
    with pytest.raises(PolicyError, match="needs an environment with decisions on eviction"):
        load_policy(f"mlp:{tmp_path}/network.safetensors", inline)
