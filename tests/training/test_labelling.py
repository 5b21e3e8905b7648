"""Labels: as single flips have them, on disk as soon as a module is done, and never of two kinds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.call_features import CALL_FEATURES
from mlgo_gym.training.label_module import label_module
from mlgo_gym.training.label_store import LABELS, read_labels
from mlgo_gym.training.labelling import Labelling


@pytest.fixture(scope="module")
def labelled(varied: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Labelling, Path]:
    """The labels of five small modules, all decisions flipped."""
    folder = tmp_path_factory.mktemp("labels")
    labelling = Labelling(varied, compiles=12, check=2)
    assert len(list(labelling.run(folder))) == 5
    return labelling, folder


def test_labels_are_what_single_flips_give(varied: str) -> None:
    env = make_environment("mlgo/Inline-v0", {"corpus": varied})
    module = env.corpus.module("many_calls")
    made = label_module(env.compilation(module), env.task, load_policy("default", env), compiles=12, check=9)
    assert made.labels
    assert made.decisions == sum(env.decisions(module).values())
    assert len(made.checked) == min(9, len(made.labels))
    exact = sum(abs(label - alone) <= 16 for label, alone in made.checked)
    assert exact == len(made.checked), made.checked


def test_the_same_seed_gives_the_same_labels(varied: str) -> None:
    env = make_environment("mlgo/Inline-v0", {"corpus": varied})
    policy = load_policy("never", env)
    compilation = env.compilation(env.corpus.module("mixed"))
    one, two = (label_module(compilation, env.task, policy, compiles=3, seed=7) for _ in range(2))
    assert one.labels == two.labels
    assert all(label.decision.answer == 0 for label in one.labels)


def test_labels_are_read_back_with_all_that_is_known_of_them(labelled: tuple[Labelling, Path]) -> None:
    _, folder = labelled
    labels = read_labels([folder])
    lines = [json.loads(line) for line in folder.joinpath("modules.jsonl").read_text().splitlines()]
    assert len(labels) == sum(line["labels"] for line in lines) > 0
    assert labels.observations.shape == (len(labels), len(labels.features)) == (len(labels), 39)
    assert set(np.unique(labels.observations[:, labels.features.index("inlining_default")])) <= {0.0, 1.0}
    assert {name.partition(":")[2] for name in labels.modules} <= {line["module"] for line in lines}
    assert (labels.share >= 1).all()


def test_finished_modules_are_not_labelled_again(
    labelled: tuple[Labelling, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    labelling, folder = labelled
    before = folder.joinpath("modules.jsonl").read_bytes()
    monkeypatch.setattr("mlgo_gym.training.labelling.label_module", None)
    assert len(list(labelling.run(folder))) == 5
    assert folder.joinpath("modules.jsonl").read_bytes() == before


def test_a_run_that_was_ended_goes_on(labelled: tuple[Labelling, Path], tmp_path: Path) -> None:
    labelling, whole = labelled
    run = labelling.run(tmp_path)
    next(run)
    run.close()
    list(labelling.run(tmp_path))
    for attribute in ("observations", "bytes", "text", "modules"):
        assert np.array_equal(getattr(read_labels([tmp_path]), attribute), getattr(read_labels([whole]), attribute)), (
            attribute
        )


def test_labels_of_another_kind_are_not_mixed_in(labelled: tuple[Labelling, Path]) -> None:
    labelling, folder = labelled
    message = "labels of another kind: {'policy': 'default'} there, {'policy': 'never'} now"
    with pytest.raises(MlgoError, match=message):
        list(replace(labelling, policy="never").run(folder))
    assert LABELS.read_header(folder)["policy"] == "default"


def test_a_folder_without_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MlgoError, match="was to be a folder of labels"):
        read_labels([tmp_path])


def test_labels_with_calls_say_what_was_called_and_decided_before(varied: str, tmp_path: Path) -> None:
    labelling = Labelling(varied, arguments={"calls": True}, compiles=4)
    list(labelling.run(tmp_path / "with"))
    list(replace(labelling, arguments={}).run(tmp_path / "without"))
    seeing, blind = (read_labels([tmp_path / name]) for name in ("with", "without"))
    assert seeing.features == (*blind.features, *CALL_FEATURES)
    assert np.array_equal(seeing.bytes, blind.bytes), "what is measured does not depend on it"
    assert np.array_equal(seeing.observations[:, : len(blind.features)], blind.observations)
    made = seeing.observations[:, seeing.features.index("module_decisions")]
    assert len(set(made.tolist())) > 3
    with pytest.raises(MlgoError, match=r"lacks callee_linkage, .* module_share, unlike those before: train on"):
        read_labels([tmp_path / "with", tmp_path / "without"])


def test_labels_around_a_policy_that_sees_calls_have_them_and_are_what_single_flips_give(
    varied: str, tmp_path: Path
) -> None:
    labelling = Labelling(varied, "inline-oz-calls", compiles=8, check=6)
    lines = list(labelling.run(tmp_path, jobs=2))
    assert not [line["error"] for line in lines if "error" in line]
    pairs = [pair for line in lines for pair in line["checked"]]
    assert len(pairs) > 6
    assert all(abs(label - alone) <= 16 for label, alone in pairs)
    assert set(CALL_FEATURES) <= set(read_labels([tmp_path]).features)
    assert LABELS.read_header(tmp_path)["arguments"] == {"calls": True}
