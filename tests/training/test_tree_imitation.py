"""Trees and their network learn the better actions of labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.training import Monitor, NetworkSettings, TreeImitation
from mlgo_gym.training.distillation import network_features
from mlgo_gym.training.labels import joined
from mlgo_gym.training.tree_imitation import boosted_trees, estimate, tree_features
from tests.training.label_samples import FEATURES, inlining_labels

SMALL = TreeImitation(1, 40, NetworkSettings((32, 16), 400))


@pytest.fixture
def libraries() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")


def test_trees_see_logarithms_and_relations_and_estimates_are_mean_changes_of_modules() -> None:
    rows = np.zeros((2, len(FEATURES)))
    rows[0, FEATURES.index("cost_estimate")], rows[0, FEATURES.index("threshold")] = 40, 10
    inputs, plain = tree_features(FEATURES, rows), len(network_features(FEATURES))
    assert inputs.shape == (2, plain + 7)
    assert (inputs[0, 0], inputs[0, plain]) == (np.log1p(40), np.log1p(30))
    assert not inputs[1].any()
    labels = inlining_labels()
    smaller = (labels.bytes < 0).astype(int)
    assert estimate(labels, labels.answers) == 0 > estimate(labels, smaller)
    assert estimate(labels, 1 - smaller) > 0
    assert estimate(labels, smaller) == pytest.approx(labels.bytes[labels.bytes < 0].sum() * 2 / 1_000_000 / 30)


def test_excluding_needs_digests_and_leaves_labels() -> None:
    labels = inlining_labels(60)
    with pytest.raises(MlgoError, match="got only excluded ones"):
        SMALL.fit([labels], Monitor(), exclude=set(labels.digests.tolist()))
    with pytest.raises(MlgoError, match="expected labels with the digests of their modules"):
        SMALL.fit([replace(labels, digests=np.array([""] * 60))], Monitor(), exclude={"a" * 64})


@pytest.mark.libraries
@pytest.mark.usefixtures("libraries")
def test_trees_and_their_network_learn_the_labels_of_all_rounds() -> None:
    labels, monitor = inlining_labels(), Monitor()
    logits = boosted_trees(labels, 1, 40)
    assert ((logits(labels.observations) > 0) == (labels.bytes < 0)).mean() > 0.95
    with pytest.raises(MlgoError, match="expected labels other than 0, got 600 labels of 0"):
        boosted_trees(replace(labels, costs=np.zeros_like(labels.costs)), 1, 40)
    network = SMALL.fit([labels.select(slice(300)), labels.select(slice(300, 600))], monitor)
    columns = [FEATURES.index(name) for name in network.features]
    answers = network(labels.observations[:, columns].astype(np.float32))[:, 0] > 0
    assert (answers == (labels.bytes < 0)).mean() > 0.85
    (facts,) = monitor.results["network"]
    assert (facts["labels"], facts["modules"], facts["estimates"]["default"]) == (600, 60, 0)
    assert facts["estimates"]["best"] <= facts["estimates"]["network"] < 0.9 * facts["estimates"]["best"]


@pytest.mark.libraries
@pytest.mark.usefixtures("libraries")
def test_excluded_modules_are_not_learned_from_and_a_cached_network_is_not_fitted_again(tmp_path: Path) -> None:
    labels, other, monitor = inlining_labels(), inlining_labels(first=30), Monitor()
    fit = replace(SMALL, trees=5, network=NetworkSettings((8,), 20), cache=tmp_path)
    one = fit.fit([joined([labels, other])], monitor, exclude=set(other.digests.tolist()))
    (file,) = tmp_path.glob("*.safetensors")
    before = file.stat().st_mtime_ns
    two = replace(fit, threads=3).fit([labels], monitor)
    assert np.array_equal(one.weights[0], two.weights[0])
    assert monitor.results["network"][0] == monitor.results["network"][1]
    assert [path.stat().st_mtime_ns for path in tmp_path.glob("*.safetensors")] == [before]
    replace(fit, seed=1).fit([labels], monitor)
    fit.fit([inlining_labels(601)], monitor)
    assert len(list(tmp_path.glob("*.safetensors"))) == 3
    file.write_bytes(b"damaged")
    assert np.array_equal(fit.fit([labels], monitor).weights[0], one.weights[0])
