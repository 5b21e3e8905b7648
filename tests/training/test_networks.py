"""Networks learn from labels, by trees."""

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.training import Monitor, NetworkSettings, TreeImitation
from mlgo_gym.training.distillation import network_features
from mlgo_gym.training.labels import joined
from mlgo_gym.training.tree_imitation import estimate, tree_features
from tests.training.label_samples import FEATURES, inlining_labels

SMALL = TreeImitation(1, 40, NetworkSettings((32, 16), 400))


@pytest.fixture
def torch() -> Any:
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def test_features_that_name_the_module_or_are_constant_are_no_inputs() -> None:
    names = InlineEnv(callee_features=True).feature_names
    dropped = "node_count edge_count is_callee_avail_external is_caller_avail_external"
    assert [name for name in names if name not in network_features(names)] == sorted(dropped.split(), key=names.index)


def test_trees_are_averaged_over_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[dict[str, Any], int]] = []

    def train(parameters: dict[str, Any], data: Any, trees: int) -> Any:
        seen.append((parameters, trees))
        rows, targets, weights = data
        assert len(rows) == len(targets) == len(weights) == np.count_nonzero(labels.bytes)
        return SimpleNamespace(predict=lambda rows, raw_score: rows[:, -7] * raw_score + parameters["seed"])

    lightgbm = SimpleNamespace(Dataset=lambda rows, label, weight: (rows, label, weight), train=train)
    monkeypatch.setitem(sys.modules, "lightgbm", lightgbm)
    labels = inlining_labels(60)
    logits = TreeImitation(models=2, trees=7, seed=5, threads=3).inlining_trees(labels)
    calls = np.array([[-20, 30, 50, 7, 3, 5, 25, 1, 4, 0], [400, 30, 0, 7, 3, 5, 25, 2, 4, 0]])
    found = tree_features(FEATURES, calls)
    relations = np.array([[-50, 30, 4, 30], [370, 400, 4, 30]])
    assert np.allclose(found[:, -7:-3], np.sign(relations) * np.log1p(np.abs(relations)))
    assert np.allclose(found[:, -3:], [[-50 / 30, 1, 1], [150 / 30, 0, 0]])
    assert np.allclose(logits(calls), found[:, -7] + 5.5)
    chosen = [(parameters["seed"], parameters["num_threads"], parameters["objective"]) for parameters, _ in seen]
    assert (chosen, {trees for _, trees in seen}) == ([(5, 3, "binary"), (6, 3, "binary")], {7})
    # A module counts up to 8 %.
    labels = replace(labels, text=np.full(60, 2000))
    sums = [labels.bytes[labels.groups == group].sum() * 2 / 2000 for group in range(30)]
    assert estimate(labels, np.ones(60)) == pytest.approx(np.mean([min(0.08, max(-0.08, total)) for total in sums]))
    assert -0.08 < estimate(labels, np.ones(60)) != estimate(labels, np.zeros(60)) == 0


@pytest.mark.libraries
def test_trees_and_their_network_learn_the_labels_of_all_rounds(torch: Any) -> None:
    labels = inlining_labels()
    settings = TreeImitation(models=1, trees=40)
    logits = settings.inlining_trees(labels)
    assert ((logits(labels.observations) > 0) == (labels.bytes < 0)).mean() > 0.95
    with pytest.raises(MlgoError, match="expected labels other than 0, got 600 labels of 0"):
        settings.inlining_trees(replace(labels, bytes=np.zeros(600)))
    losses: list[float] = []
    monitor = Monitor(lambda progress: losses.extend(progress.values.values()))
    network = SMALL.fit([labels.select(slice(300)), labels.select(slice(300, 600))], monitor)
    columns = [FEATURES.index(name) for name in network.features]
    answers = network(labels.observations[:, columns].astype(np.float32))[:, 0] > 0
    assert (answers == (labels.bytes < 0)).mean() > 0.85
    (facts,) = monitor.results["network"]
    assert (facts["labels"], facts["modules"], facts["estimates"]["default"]) == (600, 60, 0)
    estimates = facts["estimates"]
    assert estimates["best"] <= estimates["trees"] < 0.9 * estimates["best"]
    assert estimates["best"] <= estimates["network"] < 0.9 * estimates["best"]
    assert losses[-1] < losses[0] / 2


@pytest.mark.libraries
def test_excluded_modules_are_not_learned_from_and_the_number_of_threads_changes_nothing(torch: Any) -> None:
    labels, other, monitor = inlining_labels(), inlining_labels(first=30), Monitor()
    fit = replace(SMALL, trees=5, network=NetworkSettings((8,), 20))
    one = fit.fit([joined([labels, other])], monitor, exclude=set(other.digests.tolist()))
    two = replace(fit, threads=3).fit([labels], monitor)
    assert np.array_equal(one.weights[0], two.weights[0])
    assert monitor.results["network"][0] == monitor.results["network"][1]
