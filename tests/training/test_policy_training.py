"""A policy is trained from a corpus in rounds, and an interrupted run resumes to the same policy."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.corpus.modules.training_digests import sidecar_digests
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.network import Network
from mlgo_gym.session.protocol.callee_features import CALLEE_FEATURES
from mlgo_gym.training import Labelling, Labels, Monitor, NetworkSettings, PolicyTraining, TreeImitation
from mlgo_gym.training.labels import LABELS
from mlgo_gym.training.monitor import Progress

SMALL = TreeImitation(1, 5, NetworkSettings((16, 8), 150))


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Replace the fit by one that needs no library; the numbers of labels and of excluded modules of each call."""
    calls: list[tuple[int, int]] = []

    def fit(self: TreeImitation, rounds: Sequence[Labels], monitor: Monitor, exclude: Collection[str] = ()) -> Network:
        calls.append((sum(map(len, rounds)), len(exclude)))
        monitor.record("network", labels=calls[-1][0])
        weights = (np.full((2, 4), len(rounds), np.float32), np.full((4, 1), -1, np.float32))
        biases = (np.zeros(4, np.float32), np.zeros(1, np.float32))
        return Network(("cost_estimate", "inlining_default"), weights, biases)

    monkeypatch.setattr(TreeImitation, "fit", fit)
    return calls


def test_each_round_is_labelled_around_the_last_network(
    fits: list[tuple[int, int]], varied: str, tmp_path: Path
) -> None:
    training = PolicyTraining(Labelling(varied, compiles=3, limit=3), SMALL, 2, (0.5,))
    stages: list[Progress] = []
    final = training.run(tmp_path, monitor=Monitor(stages.append))
    assert fits[0][0] < fits[1][0]
    headers = [LABELS.read_header(tmp_path / f"round-{number}" / "labels") for number in (0, 1)]
    assert [header["policy"].partition(":")[0] for header in headers] == ["default", "mlp"]
    assert {stage.stage for stage in stages} == {"labels, round 1", "labels, round 2"}
    card = json.loads((tmp_path / "policy.json").read_bytes())
    assert [facts["labels"] for facts in card["rounds"]] == [count for count, _ in fits]
    assert (card["margin"], card["modules"], card["callee_features"]) == (0.5, 3, False)
    assert set(sidecar_digests(final)) <= {module.digest() for module in InlineEnv(corpus=varied).corpus}
    before = final.read_bytes()
    final.unlink()
    assert training.run(tmp_path).read_bytes() == before
    with pytest.raises(MlgoError, match=r"expected labels of {'compiles': 4}"):
        replace(training, labelling=replace(training.labelling, compiles=4)).run(tmp_path)


def test_several_margins_need_a_validation_split(fits: list[tuple[int, int]], calls: Path, tmp_path: Path) -> None:
    training = PolicyTraining(Labelling(str(calls)), SMALL, 1, (0.0, 1.0), str(calls))
    with pytest.raises(MlgoError, match="got none in the split valid"):
        training.run(tmp_path)
    assert fits == []


def test_the_margin_is_chosen_by_modules_of_the_validation_split(
    fits: list[tuple[int, int]], varied: str, tmp_path: Path
) -> None:
    training = PolicyTraining(Labelling(varied, compiles=3), SMALL, 1, (0.0, 1e6), varied)
    training.run(tmp_path)
    card = json.loads((tmp_path / "policy.json").read_bytes())
    assert [excluded for _, excluded in fits] == [0, 2]
    assert [tried["modules"] for tried in card["margins"]] == [2, 2]
    assert card["margins"][1]["mean"] == 0.0  # no output reaches that margin
    assert len(card["rounds"]) == 1
    digests = {module.digest() for module in InlineEnv(corpus=varied).corpus}
    assert set(sidecar_digests(tmp_path / "policy.safetensors")) <= digests


@pytest.mark.libraries
@pytest.mark.timeout(300)
def test_a_policy_with_callee_features_is_trained_and_resumed(varied: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    labelling = Labelling(varied, arguments={"callee_features": True}, compiles=5)
    training = PolicyTraining(labelling, SMALL, 2, (0.0, 20.0), varied)
    final = training.run(tmp_path)
    before = final.read_bytes()
    card = json.loads(tmp_path.joinpath("policy.json").read_bytes())
    assert card["callee_features"]
    assert set(CALLEE_FEATURES) <= set(card["features"])
    assert [facts["labels"] > 0 for facts in card["rounds"]] == [True, True]
    env = gym.make("mlgo/Inline-v0", corpus=varied, callee_features=True)
    assert load_policy(f"mlp:{final}", env) is not None
    for path in (final, tmp_path / "round-0.safetensors"):
        path.unlink()
    assert training.run(tmp_path).read_bytes() == before
