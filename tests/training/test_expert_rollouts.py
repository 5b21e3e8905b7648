"""Rollouts have the expert's actions in the states that a network reaches, in any process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.network import Network
from mlgo_gym.scheduling import Execution
from mlgo_gym.training import Labels, Monitor, NetworkSettings, imitate
from mlgo_gym.training.evolution import flatten
from mlgo_gym.training.expert_rollouts import expert_rollouts

SMALL = NetworkSettings((16, 8), 150)


def collected(
    env: CompilerEnv,
    expert: Any = "default",
    network: Network | None = None,
    *,
    per_episode: int = 2000,
    seed: int = 0,
    execution: Execution = Execution(),
) -> tuple[Labels, float]:
    """Return the labels of a round of two episodes, and how often the acting policy agreed with the expert."""
    monitor, columns = Monitor(), tuple(range(len(env.feature_names)))
    with expert_rollouts(env, expert, columns, 2, per_episode, seed, execution) as collector:
        labels = collector.collect(0 if network is None else 1, network, monitor)
    return labels, monitor.results["rollouts"][0]["agreement"]


def make(corpus: Path | str, environment: str = "mlgo/Inline-v0", **arguments: Any) -> CompilerEnv:
    env = gym.make(environment, corpus=str(corpus), **arguments).unwrapped
    assert isinstance(env, CompilerEnv)
    return env


def test_the_expert_acts_in_the_first_round_and_labels_in_later_ones(corpus: Path) -> None:
    env = make(corpus)
    labels, agreement = collected(env)
    column = labels.features.index("inlining_default")
    assert np.array_equal(labels.observations[:, column], labels.answers)
    assert np.array_equal(labels.best_actions, labels.answers)
    assert (labels.costs.shape, agreement) == ((len(labels), 2), 1.0)
    assert labels.trained_on
    assert set(labels.trained_on.values()) <= set(env.corpus.names)
    never = Network(("cost_estimate",), (np.zeros((1, 1), np.float32),), (np.array([-1.0], np.float32),))
    labels, agreement = collected(env, load_policy("always", env), never)
    assert labels.answers.all()
    assert agreement == 0.0


def test_the_seed_and_weights_select_the_modules_and_an_episode_is_cut(varied: str) -> None:
    env = make(varied)
    one, two, other = (collected(env, seed=seed)[0] for seed in (0, 0, 1))
    assert np.array_equal(one.observations, two.observations)
    assert one.trained_on != other.trained_on
    assert len(collected(env, per_episode=1)[0]) == 2
    weighted, _ = collected(make(varied, module_order={"calls": 1, "*": 0}))
    assert list((weighted.trained_on or {}).values()) == ["calls"]


def test_illegal_actions_are_marked(varied: str) -> None:
    labels, _ = collected(make(varied, "mlgo/RegAllocEvict-v0", scope="function"))
    assert labels.costs.shape[1] == 33
    assert not labels.costs[np.arange(len(labels)), labels.answers].any()
    assert np.isposinf(labels.costs).any()


def test_two_processes_collect_the_same(corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus, tmp_path / "corpus")
    env = make(tmp_path / "corpus")
    (one, _), (two, _) = (collected(env, execution=Execution(jobs)) for jobs in (1, 2))
    assert np.array_equal(one.observations, two.observations)
    assert np.array_equal(one.answers, two.answers)
    assert one.trained_on == two.trained_on


def test_unusable_settings_are_refused(corpus: Path, leaf: Path) -> None:
    env = make(corpus)
    with pytest.raises(MlgoError, match="expected a corpus with decisions, got none in any module"):
        collected(make(leaf))
    with pytest.raises(MlgoError, match=r"an expert by its specification, got .*; use Execution\(\) for this process"):
        collected(env, load_policy("never", env), execution=Execution(2))
    with pytest.raises(MlgoError, match="0 ≤ label_smoothing < 1, got 3, 16, 2000 and 1"):
        imitate(env, label_smoothing=1.0)
    with pytest.raises(MlgoError, match="Discrete action space"):
        imitate(gym.make("mlgo/RegAllocPriority-v0", corpus=str(corpus)))


@pytest.mark.libraries
def test_an_imitation_of_clang_decides_as_clang(corpus: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    env = make(corpus)
    monitor = Monitor()
    network = imitate(env, rounds=2, episodes=2, settings=SMALL, monitor=monitor)
    first, second = (result["agreement"] for result in monitor.results["rollouts"])
    assert first == 1.0
    assert second > 0.8
    assert network.outputs == 2
    assert "inlining_default" not in network.features
    again = imitate(env, rounds=2, episodes=2, settings=SMALL)
    assert np.array_equal(flatten(again), flatten(network))
