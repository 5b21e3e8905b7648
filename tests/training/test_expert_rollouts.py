"""Rollouts have the expert's actions, whoever acts, in any process."""

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
from mlgo_gym.training import expert_rollouts as rollouts
from mlgo_gym.training.evolution import flatten

SMALL = NetworkSettings((16, 8), 150)


def collected(
    env: CompilerEnv, expert: Any = "default", network: Network | None = None, **settings: Any
) -> tuple[Labels, Monitor]:
    """Return the labels of a round of two episodes."""
    monitor = Monitor()
    rollout = rollouts._Rollout(expert, tuple(range(len(env.feature_names))), settings.pop("per_episode", 2000), 0)
    with rollouts._workers(env, rollout, settings.pop("execution", Execution())) as workers:
        collector = rollouts.ExpertRollouts(env, workers, rollout.columns, 2, **settings)
        return collector.collect(0 if network is None else 1, network, monitor), monitor


def make(corpus: Path | str, environment: str = "mlgo/Inline-v0", **arguments: Any) -> CompilerEnv:
    env = gym.make(environment, corpus=str(corpus), **arguments).unwrapped
    assert isinstance(env, CompilerEnv)
    return env


def test_the_expert_acts_in_the_first_round(corpus: Path) -> None:
    env = make(corpus)
    found, monitor = collected(env)
    column = found.features.index("inlining_default")
    assert np.array_equal(found.observations[:, column], found.answers)
    assert found.costs.shape == (len(found), 2)
    assert np.array_equal(found.best_actions, found.answers)
    assert found.trained_on
    assert set(found.trained_on.values()) <= set(env.corpus.names)
    assert monitor.results["rollouts"][0]["agreement"] == 1.0


def test_a_network_acts_in_later_rounds_and_the_expert_labels(corpus: Path) -> None:
    env = make(corpus)
    never = Network(("cost_estimate",), (np.zeros((1, 1), np.float32),), (np.array([-1.0], np.float32),))
    found, monitor = collected(env, load_policy("always", env), never)
    assert found.answers.all()
    assert monitor.results["rollouts"][0]["agreement"] == 0.0


def test_the_seed_selects_the_modules_and_an_episode_is_cut(varied: str) -> None:
    env = make(varied)
    one, two, other = (collected(env, seed=seed)[0] for seed in (0, 0, 1))
    assert np.array_equal(one.observations, two.observations)
    assert one.trained_on != other.trained_on
    assert len(collected(env, per_episode=1)[0]) == 2


def test_illegal_actions_are_marked(varied: str) -> None:
    found, _ = collected(make(varied, "mlgo/RegAllocEvict-v0", scope="function"))
    assert found.costs.shape[1] == 33
    assert not found.costs[np.arange(len(found)), found.answers].any()
    assert np.isposinf(found.costs).any()


def test_two_processes_collect_the_same(corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus, tmp_path / "corpus")
    env = make(tmp_path / "corpus")
    (one, _), (two, _) = (collected(env, execution=Execution(jobs)) for jobs in (1, 2))
    assert np.array_equal(one.observations, two.observations)
    assert np.array_equal(one.answers, two.answers)
    assert one.trained_on == two.trained_on


def test_weights_of_modules_hold(varied: str) -> None:
    found, _ = collected(make(varied, module_order={"calls": 1, "*": 0}))
    assert found.trained_on
    assert list(found.trained_on.values()) == ["calls"]


def test_a_corpus_without_decisions_is_refused(leaf: Path) -> None:
    with pytest.raises(MlgoError, match="expected a corpus with decisions, got none in any module"):
        collected(make(leaf))


def test_a_policy_object_stays_in_this_process(corpus: Path) -> None:
    env = make(corpus)
    with pytest.raises(MlgoError, match=r"an expert by its specification, got .*; use Execution\(\) for this process"):
        collected(env, load_policy("never", env), execution=Execution(2))


@pytest.mark.libraries
def test_an_imitation_of_clang_decides_as_clang(corpus: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    env = gym.make("mlgo/Inline-v0", corpus=str(corpus))
    monitor = Monitor()
    network = imitate(env, rounds=2, episodes=2, settings=SMALL, monitor=monitor)
    first, second = (each["agreement"] for each in monitor.results["rollouts"])
    assert first == 1.0
    assert second > 0.8
    assert network.outputs == 2
    assert "inlining_default" not in network.features
    again = imitate(env, rounds=2, episodes=2, settings=SMALL)
    assert np.array_equal(flatten(again), flatten(network))


@pytest.mark.libraries
def test_settings_out_of_range_are_refused(corpus: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    env = gym.make("mlgo/Inline-v0", corpus=str(corpus))
    with pytest.raises(MlgoError, match="0 ≤ label_smoothing < 1, got 3, 16, 2000 and 1"):
        imitate(env, label_smoothing=1.0)
    with pytest.raises(MlgoError, match="Discrete action space"):
        imitate(gym.make("mlgo/RegAllocPriority-v0", corpus=str(corpus)))
