"""Trees and their network learn the better actions of labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.network import Network
from mlgo_gym.training import Monitor, NetworkSettings, TreeImitation
from mlgo_gym.training.distillation import network_features
from mlgo_gym.training.labels import joined
from mlgo_gym.training.tree_imitation import boosted_trees, estimate, tree_features
from tests.training.label_samples import FEATURES, inlining_labels

SMALL = TreeImitation(1, 40, NetworkSettings((32, 16), 400))


def test_trees_see_logarithms_and_relations() -> None:
    rows = np.zeros((2, len(FEATURES)))
    rows[0, FEATURES.index("cost_estimate")], rows[0, FEATURES.index("threshold")] = 40, 10
    inputs = tree_features(FEATURES, rows)
    assert inputs.shape == (2, len(network_features(FEATURES)) + 7)
    assert inputs[0, 0] == np.log1p(40)
    assert inputs[0, len(network_features(FEATURES))] == np.log1p(30)
    assert not inputs[1].any()


def test_estimates_are_mean_changes_of_modules() -> None:
    labels = inlining_labels()
    smaller = (labels.bytes < 0).astype(int)
    assert estimate(labels, labels.answers) == 0
    assert estimate(labels, smaller) < 0 < estimate(labels, 1 - smaller)
    assert estimate(labels, smaller) == pytest.approx(labels.bytes[labels.bytes < 0].sum() * 2 / 1_000_000 / 30)


@pytest.mark.libraries
def test_trees_predict_the_smaller_action() -> None:
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    labels = inlining_labels()
    logits = boosted_trees(labels, 1, 40)
    assert ((logits(labels.observations) > 0) == (labels.bytes < 0)).mean() > 0.95
    nothing = replace(labels, costs=np.zeros_like(labels.costs))
    with pytest.raises(MlgoError, match="expected labels other than 0, got 600 labels of 0"):
        boosted_trees(nothing, 1, 40)


@pytest.mark.libraries
def test_the_network_learns_the_labels_of_all_rounds() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    labels, monitor = inlining_labels(), Monitor()
    network = SMALL.fit([labels.select(slice(300)), labels.select(slice(300, 600))], monitor)
    columns = [FEATURES.index(name) for name in network.features]
    answers = network(labels.observations[:, columns].astype(np.float32))[:, 0] > 0
    assert (answers == (labels.bytes < 0)).mean() > 0.85
    (facts,) = monitor.results["network"]
    assert (facts["labels"], facts["modules"]) == (600, 60)
    estimates = facts["estimates"]
    assert estimates["default"] == 0
    assert estimates["best"] <= estimates["network"] < 0.9 * estimates["best"]


@pytest.mark.libraries
def test_excluded_modules_are_not_learned_from() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    labels, other, monitor = inlining_labels(), inlining_labels(first=30), Monitor()
    fit = replace(SMALL, trees=5, network=NetworkSettings((8,), 20))
    fit.fit([joined([labels, other])], monitor, exclude=set(other.digests.tolist()))
    fit.fit([labels], monitor)
    assert monitor.results["network"][0] == monitor.results["network"][1]


def test_excluding_needs_digests_and_leaves_labels() -> None:
    labels = inlining_labels(60)
    with pytest.raises(MlgoError, match="got only excluded ones"):
        SMALL.fit([labels], Monitor(), exclude=set(labels.digests.tolist()))
    with pytest.raises(MlgoError, match="expected labels with the digests of their modules"):
        SMALL.fit([replace(labels, digests=np.array([""] * 60))], Monitor(), exclude={"a" * 64})


def test_a_cached_network_is_not_fitted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[int] = []

    def fit(self: TreeImitation, labels: object, advance: object) -> tuple[Network, dict[str, int]]:
        fitted.append(len(fitted))
        weight = np.full((1, 1), len(fitted), np.float32)
        return Network(("cost_estimate",), (weight,), (np.zeros(1, np.float32),)), {"labels": 600}

    monkeypatch.setattr(TreeImitation, "_fit", fit)
    labels, monitor = inlining_labels(60), Monitor()
    cached = replace(SMALL, cache=tmp_path)
    one, two = (cached.fit([labels], monitor) for _ in range(2))
    assert np.array_equal(one.weights[0], two.weights[0])
    assert len(fitted) == 1
    assert monitor.results["network"][0] == monitor.results["network"][1]
    for changed in (replace(cached, seed=1), replace(cached, network=NetworkSettings((8,), 20))):
        changed.fit([labels], monitor)
    cached.fit([inlining_labels(61)], monitor)
    assert len(fitted) == 4
    (file, *_) = tmp_path.glob("*.safetensors")
    file.write_bytes(b"damaged")
    replace(cached, threads=3).fit([labels], monitor)
    assert len(fitted) in (4, 5)
