"""Modules are labelled once, in any process, and each round around the network of the round before."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym.corpus import open_corpus
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.policies.network import Network
from mlgo_gym.scheduling import Execution
from mlgo_gym.session.protocol.callee_features import CALLEE_FEATURES
from mlgo_gym.training import Labelling, LabelRounds, Monitor, StoredLabels, read_labels
from mlgo_gym.training.label_collector import drawn_modules
from mlgo_gym.training.labels import LABELS
from tests.training.label_samples import inlining_labels


@pytest.fixture(scope="module")
def labelled(varied: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Labelling, Path]:
    """The labels of five small modules."""
    folder = tmp_path_factory.mktemp("labels")
    labelling = Labelling(varied, compiles=8, check=2)
    assert len(list(labelling.run(folder))) == 5
    return labelling, folder


def without_times(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if "seconds" not in name}


def test_labels_have_a_line_for_each_module_and_a_resumed_run_the_same_labels(
    labelled: tuple[Labelling, Path], tmp_path: Path
) -> None:
    labelling, folder = labelled
    labels = read_labels([folder])
    text = folder.joinpath("modules.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(labels) == sum(line["labels"] for line in lines) > 0
    assert labels.observations.shape == (len(labels), len(labels.features)) == (len(labels), 39)
    assert set(np.unique(labels.observations[:, labels.features.index("inlining_default")])) <= {0.0, 1.0}
    assert set(labels.modules.tolist()) <= {line["module"] for line in lines}
    assert (labels.share >= 1).all()
    assert len(list(labelling.run(folder))) == 5
    assert folder.joinpath("modules.jsonl").read_text() == text, "finished modules are not labelled again"
    run = labelling.run(tmp_path)
    next(run)
    run.close()
    list(labelling.run(tmp_path))
    resumed = read_labels([tmp_path])
    for name in ("observations", "costs", "text", "modules"):
        assert np.array_equal(getattr(resumed, name), getattr(labels, name)), name
    with pytest.raises(MlgoError, match=r"expected labels of \{'policy': 'never'\}"):
        list(replace(labelling, policy="never").run(folder))
    assert LABELS.read_header(folder)["policy"] == "default"


def test_callee_features_are_added_to_the_same_labels(labelled: tuple[Labelling, Path], tmp_path: Path) -> None:
    labelling, folder = labelled
    list(replace(labelling, arguments={"callee_features": True}).run(tmp_path))
    extended, plain = (read_labels([path]) for path in (tmp_path, folder))
    assert extended.features == (*plain.features, *CALLEE_FEATURES)
    assert np.array_equal(extended.bytes, plain.bytes)
    assert np.array_equal(extended.observations[:, : len(plain.features)], plain.observations)
    decisions = extended.observations[:, extended.features.index("module_decisions")]
    assert len(set(decisions.tolist())) > 3


@pytest.mark.slow
def test_labels_around_a_policy_with_callee_features_have_them(varied: str, tmp_path: Path) -> None:
    labelling = Labelling(varied, "inline-oz", compiles=8, check=6)
    lines = list(labelling.run(tmp_path, execution=Execution(2)))
    assert not [line["error"] for line in lines if "error" in line]
    pairs = [pair for line in lines for pair in line["checked"]]
    assert len(pairs) > 6
    assert all(abs(label - alone) <= 16 for label, alone in pairs)
    assert set(CALLEE_FEATURES) <= set(read_labels([tmp_path]).features)
    assert LABELS.read_header(tmp_path)["arguments"] == {"callee_features": True}


def test_evictions_are_labelled_by_look_ahead_in_any_process(varied: str, tmp_path: Path) -> None:
    labelling = Labelling(varied, environment="mlgo/RegAllocEvict-v0", compiles=3)
    one, two = (
        {line["module"]: without_times(line) for line in labelling.run(tmp_path / name, execution)}
        for name, execution in (("one", Execution()), ("two", Execution(2)))
    )
    assert one == two
    assert LABELS.read_header(tmp_path / "one")["arguments"] == {"scope": "function"}
    labels, other = (read_labels([tmp_path / name]) for name in ("one", "two"))
    assert labels.costs.shape == (len(labels), 33)
    assert np.array_equal(labels.costs, other.costs, equal_nan=True)
    assert len(labels.features) == labels.observations.shape[1] == 628
    labelling = Labelling(varied, environment="mlgo/RegAllocPriority-v0")
    with pytest.raises(MlgoError, match="expected an environment with discrete actions, got mlgo/RegAllocPriority-v0"):
        list(labelling.run(tmp_path))


def test_a_round_is_labelled_around_the_network_of_the_round_before(varied: str, tmp_path: Path) -> None:
    collector = LabelRounds(Labelling(varied, compiles=3, limit=2), tmp_path)
    never = Network(("cost_estimate",), (np.zeros((1, 1), np.float32),), (np.array([-1.0], np.float32),))
    first, second = (collector.collect(number, network, Monitor()) for number, network in ((0, None), (1, never)))
    assert first.answers.any()
    assert not second.answers.any()
    headers = [LABELS.read_header(tmp_path / f"round-{number}" / "labels") for number in (0, 1)]
    assert [header["seed"] for header in headers] == [0, 1]
    assert headers[1]["policy"].startswith(f"mlp:{tmp_path}/round-0.safetensors ")
    labels = inlining_labels(10)
    assert StoredLabels(labels).collect(0, None, Monitor()) is labels


def test_modules_are_drawn_by_the_seed_with_limits_of_number_size_and_project(
    varied: str, toolchain: Toolchain
) -> None:
    corpus = open_corpus(varied, toolchain=toolchain)
    everything = drawn_modules(corpus, 3)
    assert sorted(everything) == sorted(corpus.names)
    assert everything != drawn_modules(corpus, 4)
    assert drawn_modules(corpus, 3, limit=2) == everything[:2]
    largest = min(map(corpus.size, corpus.names))
    assert {corpus.size(name) for name in drawn_modules(corpus, 3, largest)} == {largest}
    corpus = open_corpus("builtin@Oz,builtin@Os")
    drawn = drawn_modules(corpus, 3, max_per_project=2)
    projects = Counter((name.partition("/")[0], corpus.project(name)) for name in drawn)
    assert (set(projects.values()), len(projects)) == ({2}, 6)
    assert drawn == [name for name in drawn_modules(corpus, 3) if name in drawn]
