"""A pipeline collects, fits and chooses; a policy is trained in rounds, and an interrupted run resumes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from mlgo_gym.corpus import open_corpus
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.modules.training_digests import sidecar, sidecar_digests, training_digest
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.network import Network
from mlgo_gym.session.protocol.callee_features import CALLEE_FEATURES
from mlgo_gym.training import Labelling, Labels, Monitor, NetworkSettings, Pipeline, PolicyTraining, TreeImitation
from mlgo_gym.training.labels import LABELS
from mlgo_gym.training.monitor import Progress
from tests.training.label_samples import inlining_labels

SMALL = TreeImitation(1, 5, NetworkSettings((16, 8), 150))


def network(value: float) -> Network:
    """Return a network that is recognised by its bias."""
    return Network(("a",), (np.zeros((1, 1), np.float32),), (np.array([value], np.float32),))


def value_of(found: Network | None) -> float | None:
    return None if found is None else float(found.biases[0][0])


@dataclass
class Recorded:
    """A collector, a fit and a choice that record their calls."""

    digests: Sequence[Mapping[str, str]]
    validation: Sequence[Module] = ()
    calls: list[tuple[str, object]] = field(default_factory=list)

    def collect(self, number: int, network: Network | None, monitor: Monitor) -> Labels:
        self.calls.append(("collect", (number, value_of(network))))
        digests, names = (np.array(list(texts), np.str_) for texts in zip(*self.digests[number].items(), strict=True))
        labels = inlining_labels(len(names), modules=len(names))
        return replace(labels, features=(f"{number + 1}", *labels.features[1:]), digests=digests, modules=names)

    def fit(self, rounds: Sequence[Labels], monitor: Monitor) -> Network:
        self.calls.append(("fit", [data.features[0] for data in rounds]))
        return network(sum(float(data.features[0]) for data in rounds))

    def choose(self, last: Network, rounds: Sequence[Labels], monitor: Monitor) -> Network:
        self.calls.append(("choose", (value_of(last), len(rounds))))
        return network(-1)


def test_each_round_collects_around_the_last_network_and_all_modules_are_listed(
    calls: Path, toolchain: Toolchain, tmp_path: Path
) -> None:
    (module,) = open_corpus(calls, toolchain=toolchain)
    parts = Recorded([{"a" * 64: "one"}, {"b" * 64: "two"}], [module])
    output = tmp_path / "network.safetensors"
    Pipeline(parts, parts, parts, rounds=2).run(output)
    assert parts.calls == [
        ("collect", (0, None)),
        ("fit", ["1"]),
        ("collect", (1, 1.0)),
        ("fit", ["1", "2"]),
        ("choose", (3.0, 2)),
    ]
    assert value_of(Network.load(output)) == -1
    assert sidecar_digests(output) == {"a" * 64: "one", "b" * 64: "two", training_digest(module): module.name}
    parts = Recorded([{"a" * 64: "one"}, {"": "unknown"}])
    assert value_of(Pipeline(parts, parts, rounds=2).run(output)) == 3.0
    assert not sidecar(output).exists(), "one digest is unknown"


@dataclass(frozen=True)
class Simple(TreeImitation):
    """A fit that needs no library; it records the numbers of labels and of excluded modules of each call."""

    calls: list[tuple[int, int]] = field(default_factory=list)

    def settings(self) -> dict[str, object]:
        return {}

    def fit(self, rounds: Sequence[Labels], monitor: Monitor, exclude: Collection[str] = ()) -> Network:
        self.calls.append((sum(map(len, rounds)), len(exclude)))
        monitor.record("network", labels=self.calls[-1][0])
        weights = (np.full((2, 4), len(rounds), np.float32), np.full((4, 1), -1, np.float32))
        biases = (np.zeros(4, np.float32), np.zeros(1, np.float32))
        return Network(("cost_estimate", "inlining_default"), weights, biases)


def test_each_round_is_labelled_around_the_last_network(varied: str, tmp_path: Path) -> None:
    fit = Simple()
    training = PolicyTraining(Labelling(varied, compiles=3, limit=3), fit, 2, (0.5,))
    stages: list[Progress] = []
    final = training.run(tmp_path, monitor=Monitor(stages.append))
    assert fit.calls[0][0] < fit.calls[1][0]
    headers = [LABELS.read_header(tmp_path / f"round-{number}" / "labels") for number in (0, 1)]
    assert [header["policy"].partition(":")[0] for header in headers] == ["default", "mlp"]
    assert {stage.stage for stage in stages} == {"labels, round 1", "labels, round 2"}
    card = json.loads((tmp_path / "policy.json").read_bytes())
    assert [facts["labels"] for facts in card["rounds"]] == [count for count, _ in fit.calls]
    assert (card["margin"], card["modules"], card["callee_features"]) == (0.5, 3, False)
    assert set(sidecar_digests(final)) <= {module.digest() for module in InlineEnv(corpus=varied).corpus}
    before = final.read_bytes()
    final.unlink()
    assert training.run(tmp_path).read_bytes() == before
    with pytest.raises(MlgoError, match=r"expected labels of {'compiles': 4}"):
        replace(training, labelling=replace(training.labelling, compiles=4)).run(tmp_path)


def test_the_margin_is_chosen_by_modules_of_the_validation_split(varied: str, calls: Path, tmp_path: Path) -> None:
    fit = Simple()
    with pytest.raises(MlgoError, match="got none in the split valid"):
        PolicyTraining(Labelling(str(calls)), fit, 1, (0.0, 1.0), str(calls)).run(tmp_path / "none")
    assert fit.calls == []
    PolicyTraining(Labelling(varied, compiles=3), fit, 1, (0.0, 1e6), varied).run(tmp_path)
    card = json.loads((tmp_path / "policy.json").read_bytes())
    assert [excluded for _, excluded in fit.calls] == [0, 2]
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
