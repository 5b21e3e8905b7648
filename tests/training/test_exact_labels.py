"""Labels are the exact changes of compiles with one other action; rollouts have the actions of an expert."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.allocation_compile import run_allocation_compile
from mlgo_gym.errors import MlgoError
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.network import Network
from mlgo_gym.scheduling import Execution
from mlgo_gym.training import Labels, Monitor, NetworkSettings, imitate
from mlgo_gym.training.eviction_labels import label_evictions
from mlgo_gym.training.evolution import flatten
from mlgo_gym.training.expert_rollouts import expert_rollouts
from mlgo_gym.training.flip_labels import label_by_flips
from tests.conftest import MakeBitcode
from tests.training.label_samples import constant


def rows_of(columns: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return context, position, answer and costs of each label."""
    return list(zip(*(columns[name] for name in ("context", "position", "answer", "costs")), strict=True))


def test_labels_by_flips_equal_single_flips(varied: str) -> None:
    env = make_environment("mlgo/Inline-v0", {"corpus": varied})
    columns, counts = label_by_flips(env, load_policy("default", env), "mixed", compiles=6, check=4)
    assert counts["decisions"] == sum(env.decisions(env.corpus.module("mixed")).values())
    assert len(counts["checked"]) == min(4, len(columns["bytes"])) > 0
    assert all(abs(label - alone) <= 16 for label, alone in counts["checked"]), counts["checked"]
    assert set(env.task.headers[0].dtype.names or ()) < set(columns)
    assert {len(values) for values in columns.values()} == {len(columns["bytes"])}
    (one, _), (two, _) = (label_by_flips(env, load_policy("never", env), "mixed", compiles=3, seed=7) for _ in range(2))
    assert (one["position"].tolist(), one["bytes"].tolist()) == (two["position"].tolist(), two["bytes"].tolist())
    assert set(one["answer"]) == {0}
    assert label_by_flips(env, load_policy("never", env), "leaf").columns == {}


def cost_with(env: CompilerEnv, function: str, position: int, column: int | None) -> float:
    """Return the cost of the module with one other column in one function, and clang's own choice elsewhere."""

    def choose(decision: Decision, _: int) -> int:
        flipped = column is not None and decision.site[::2] == (function, position)
        return column if flipped and column is not None else int(env.task.default_action(decision))

    return run_allocation_compile(env.setup, env.compilation(env.corpus[0]), choose).cost


def test_a_label_of_an_eviction_is_the_exact_change_by_its_flip_alone(make_bitcode: MakeBitcode, leaf: Path) -> None:
    pytest.importorskip("capstone")
    env = make("mlgo/RegAllocEvict-v0", make_bitcode("spills.c"), metric="estimated-instructions")
    module = env.corpus[0].name
    found = label_evictions(env, load_policy("default", env), module, compiles=3)
    assert len(set(found.columns["context"])) > 1
    before, tried = cost_with(env, "", 0, None), 0
    for context, position, answer, costs in rows_of(found.columns):
        assert costs[answer] == 0
        for column in np.flatnonzero(np.isfinite(costs)):
            tried += column != answer
            after = before if column == answer else cost_with(env, context, position, int(column))
            assert costs[column] == pytest.approx(after - before, abs=1e-6 * before)
    assert tried == found.counts["flips"] > found.counts["compiles"]
    # Deviations of a policy are taken back first.
    columns = label_evictions(env, load_policy("never_evict", env), module, compiles=2).columns
    deviating = columns["answer"] != columns["default"]
    assert deviating.any()
    for default, costs in zip(columns["default"][deviating], np.array(columns["costs"])[deviating], strict=True):
        assert np.isfinite(costs[default])
    env = make("mlgo/RegAllocEvict-v0", leaf, metric="estimated-instructions")
    found = label_evictions(env, load_policy("default", env), env.corpus[0].name)
    assert (found.columns, found.counts["decisions"], found.counts["flips"]) == ({}, 0, 0)


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
    with expert_rollouts(env, expert, columns, 2, per_episode, seed, execution) as collect:
        labels = collect(0 if network is None else 1, network, monitor)
    return labels, monitor.results["rollouts"][0]["agreement"]


def make(environment: str, corpus: Path | str, **arguments: Any) -> CompilerEnv:
    return make_environment(environment, {"corpus": str(corpus), **arguments})


def test_the_expert_acts_in_the_first_round_and_labels_in_later_ones_in_any_process(corpus: Path) -> None:
    env = make("mlgo/Inline-v0", corpus)
    labels, agreement = collected(env)
    column = labels.features.index("inlining_default")
    assert np.array_equal(labels.observations[:, column], labels.answers)
    assert np.array_equal(labels.best_actions, labels.answers)
    assert (labels.costs.shape, agreement) == ((len(labels), 2), 1.0)
    assert labels.trained_on
    assert set(labels.trained_on.values()) <= set(env.corpus.names)
    other, _ = collected(env, execution=Execution(2))
    assert np.array_equal(labels.observations, other.observations)
    assert (labels.answers.tolist(), labels.trained_on) == (other.answers.tolist(), other.trained_on)
    labels, agreement = collected(env, load_policy("always", env), constant(0))
    assert labels.answers.all()
    assert agreement == 0.0


def test_unusable_settings_are_refused(corpus: Path, leaf: Path) -> None:
    env = make("mlgo/Inline-v0", corpus)
    with pytest.raises(MlgoError, match="expected a corpus with decisions, got none in any module"):
        collected(make("mlgo/Inline-v0", leaf))
    with pytest.raises(MlgoError, match=r"an expert by its specification, got .*; use Execution\(\) for this process"):
        collected(env, load_policy("never", env), execution=Execution(2))
    with pytest.raises(MlgoError, match="0 ≤ label_smoothing < 1, got 3, 16, 2000 and 1"):
        imitate(env, label_smoothing=1.0)
    with pytest.raises(MlgoError, match="Discrete action space"):
        imitate(make("mlgo/RegAllocPriority-v0", corpus))


@pytest.mark.libraries
def test_an_imitation_of_clang_decides_as_clang(corpus: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    env, monitor = make("mlgo/Inline-v0", corpus), Monitor()
    small = NetworkSettings((16, 8), 150)
    network, again = (imitate(env, rounds=2, episodes=2, settings=small, monitor=monitor) for _ in range(2))
    first, second, *_ = (result["agreement"] for result in monitor.results["rollouts"])
    assert first == 1.0
    assert second > 0.8
    assert network.outputs == 2
    assert "inlining_default" not in network.features
    assert np.array_equal(flatten(again), flatten(network))
