"""A pipeline collects, fits and chooses; the best checkpoint and margin are chosen on validation modules."""

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from mlgo_gym import BestCheckpoint, Labelling, __version__, open_corpus, with_margin
from mlgo_gym.corpus.training_digests import sidecar_digests
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.policies.loading import file_digest, policy_file
from mlgo_gym.policies.network import Network, Normalization
from mlgo_gym.training import Labels, Monitor, PolicyTraining, TreeImitation
from mlgo_gym.training.checkpoint_choice import MarginResult, best_margin
from mlgo_gym.training.labels import read_header
from mlgo_gym.training.margin import Base
from mlgo_gym.training.monitor import Progress
from tests.policies.episodes import random_network
from tests.training.label_samples import constant

NAMES = ("a", "cost_estimate", "inlining_default")


def test_the_better_checkpoint_is_kept(calls: Path, broken: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    corpus = open_corpus(calls, toolchain=toolchain)
    policies = {answer: f"mlp:{tmp_path}/{answer}.safetensors" for answer in (0, 1, 2)}
    for answer, policy in policies.items():
        constant(answer).save(policy.removeprefix("mlp:"))
    for order in ((0, 1), (1, 0)):
        kept = tmp_path / f"best{order[0]}.safetensors"
        best = BestCheckpoint("mlgo/Inline-v0", corpus, kept)
        changes = {answer: best.offer(policies[answer]) for answer in order}
        assert changes[1] < changes[0], "inlining everything is smaller"
        assert (best.change, best.policy) == (changes[1], f"mlp:{kept}")
        assert best.offer(policies[2]) == changes[1], "the same decisions, by another network"
        assert kept.read_bytes() == (tmp_path / "1.safetensors").read_bytes()
    refused = {f"mlp:{tmp_path}/no": "there is no", f"tflite:{tmp_path}": "in one file", "always": "a bundled policy"}
    for policy, complaint in refused.items():
        with pytest.raises(PolicyError, match=complaint):
            best.offer(policy)
    first = BestCheckpoint("mlgo/Inline-v0", corpus, kept, env_kwargs={"callee_features": True})
    assert first.offer("last-call") == first.change
    assert (first.policy, kept.read_bytes()) == (f"rule:{kept}", policy_file("last-call").read_bytes())
    failing = BestCheckpoint("mlgo/Inline-v0", open_corpus(broken, toolchain=toolchain), tmp_path / "kept.safetensors")
    assert (failing.offer(policies[1]), failing.policy) == (math.inf, "")
    assert not (tmp_path / "kept.safetensors").exists()


@pytest.mark.parametrize(
    ("results", "margin"),
    [
        ([(0.0, -0.02, 3), (0.5, -0.01, 2)], 0.0),
        ([(0.0, -0.02, 3), (0.5, -0.0196, 3)], 0.5),  # as good, with fewer deviations
        ([(0.0, -0.02, 8), (0.5, -0.01, 7), (1.0, -0.001, 0)], 0.5),  # one in twelve is too many
        ([(0.0, -0.02, 30), (0.5, -0.015, 20), (1.0, -0.01, 20)], 0.5),  # every margin is bad
    ],
)
def test_the_best_margin_has_few_larger_modules(results: list[tuple[float, float, int]], margin: float) -> None:
    assert best_margin([MarginResult(margin, mean, mean, worse, 100) for margin, mean, worse in results]) == margin


@dataclass(frozen=True)
class Simple(TreeImitation):
    """A fit that needs no library and never inlines; it records the labels and the excluded digests of each call."""

    calls: list[tuple[int, set[str]]] = field(default_factory=list)

    def settings(self) -> dict[str, object]:
        return {}

    def fit(self, rounds: Sequence[Labels], monitor: Monitor, exclude: Collection[str] = ()) -> Network:
        self.calls.append((sum(map(len, rounds)), set(exclude)))
        monitor.record("network", labels=self.calls[-1][0])
        return constant(0, hidden=len(rounds))


def observations() -> npt.NDArray[np.float32]:
    generator = np.random.default_rng(0)
    rows = np.round(generator.normal(0, 100, (4000, 3))).astype(np.float32)
    rows[:1000, 1] = generator.integers(-8, 12, 1000)
    rows[:, 2] = generator.random(4000) < 0.1
    return rows


@pytest.mark.parametrize("normal", [True, False])
@pytest.mark.parametrize("hidden", [(), (8,), (8, 5), (6, 5, 4)])
def test_a_network_deviates_from_its_base_beyond_the_margin_alone(hidden: tuple[int, ...], normal: bool) -> None:
    rows = observations()
    normalization = Normalization.fit(rows, NAMES) if normal else None
    plain = random_network(NAMES, *hidden, 1, normalization=normalization)
    logits = plain(rows)[:, 0]
    assert np.allclose(with_margin(plain, 0.0)(rows)[:, 0], logits, atol=1e-3, rtol=1e-4)
    bases = {"default": rows[:, 2] == 1, **{f"threshold:{cost}": rows[:, 1] < cost for cost in (-3, 0, 5)}}
    for base, inlines in bases.items():
        for margin in (0.3, 2.0):
            if base == "default" or hidden:
                shifted = with_margin(plain, margin, base)(rows)[:, 0]
                expected = logits + np.where(inlines, margin, -margin)
                assert np.allclose(shifted, expected, atol=1e-3, rtol=1e-4), (base, margin)


def test_a_base_answers_as_the_policy_of_its_name_and_others_are_refused() -> None:
    rows = np.array([[0, -3, 0], [0, 4, 1], [0, 5, 1]])
    for name, answers in (("default", [0, 1, 1]), ("threshold:5", [1, 1, 0])):
        base = Base.parse(name)
        assert (base.name, base.answers(NAMES, rows).tolist()) == (name, answers)
    for name in ("threshold:5.5", "never", "threshold:", "threshold:5 "):
        with pytest.raises(MlgoError, match=r"expected a base, default or threshold:K with a whole number K, got"):
            Base.parse(name)
    clipped = Normalization.fit(observations(), NAMES)
    with pytest.raises(MlgoError, match="expected a network whose normalization tells the answers of 'threshold:9"):
        with_margin(random_network(NAMES, 4, 1, normalization=clipped), 1.0, "threshold:9999999")
    blind = Network(("a",), (np.ones((1, 1), np.float32),), (np.ones(1, np.float32),))
    with pytest.raises(MlgoError, match=r"a hidden layer and inlining_default, got 1, relu, .* and a$"):
        with_margin(blind, 1.0)
    with pytest.raises(MlgoError, match=r"cost_estimate, got 1, relu, 1 outputs, 0 hidden layers"):
        with_margin(random_network(NAMES, 1), 1.0, "threshold:5")
    with pytest.raises(MlgoError, match="expected a margin ≥ 0"):
        with_margin(random_network(NAMES, 4, 1), float("nan"))


def test_each_round_is_labelled_around_the_last_network(varied: str, tmp_path: Path) -> None:
    fit = Simple()
    training = PolicyTraining(Labelling(varied, compiles=3, limit=3), fit, 2, (0.5,))
    stages: list[Progress] = []
    final = training.run(tmp_path, monitor=Monitor(stages.append))
    assert fit.calls[0][0] < fit.calls[1][0]
    headers = [read_header(tmp_path / f"round-{number}" / "labels") for number in (0, 1)]
    assert [header["policies"]["policy"].partition(":")[0] for header in headers] == ["default", "mlp"]
    assert [header["seed"] for header in headers] == [0, 1]
    assert {stage.stage for stage in stages} == {"labels, round 1", "labels, round 2"}
    card = json.loads((tmp_path / "policy.json").read_bytes())
    assert [facts["labels"] for facts in card["rounds"]] == [count for count, _ in fit.calls]
    assert (card["margin"], card["modules"], card["callee_features"]) == (0.5, 3, False)
    assert (card["name"], card["sha256"], card["mlgo_gym"]) == (final.stem, file_digest(final), __version__)
    names = "name sha256 mlgo_gym clang labelling fit validation callee_features features modules rounds margin margins"
    assert set(card) == {*names.split(), "seconds"}
    assert set(sidecar_digests(final)) <= {module.digest() for module in InlineEnv(corpus=varied).corpus}
    before = final.read_bytes()
    final.unlink()
    assert training.run(tmp_path).read_bytes() == before
    with pytest.raises(MlgoError, match="compiles: recorded 3, requested 4"):
        replace(training, labelling=replace(training.labelling, compiles=4)).run(tmp_path)


def test_the_margin_is_chosen_by_modules_of_the_validation_split(varied: str, calls: Path, tmp_path: Path) -> None:
    fit = Simple()
    with pytest.raises(MlgoError, match="got none in the split valid"):
        PolicyTraining(Labelling(str(calls)), fit, 1, (0.0, 1.0), str(calls)).run(tmp_path / "none")
    assert fit.calls == []
    PolicyTraining(Labelling(varied, compiles=3), fit, 1, (0.0, 1e6), varied).run(tmp_path)
    card = json.loads((tmp_path / "policy.json").read_bytes())
    validation = InlineEnv(corpus=varied).corpus.split("valid")
    assert [excluded for _, excluded in fit.calls] == [set(), {module.source_digest() for module in validation}]
    assert {tried["modules"] for tried in card["margins"]} <= set(range(2, len(validation) + 1))
    assert card["margins"][1]["mean"] == 0.0  # no output reaches that margin
    assert card["margins"][0]["mean"] != 0
    assert card["margin"] == min(card["margins"], key=lambda tried: tried["mean"])["margin"]
    network, fitted = Network.load(tmp_path / "policy.safetensors"), constant(0, hidden=1)
    assert np.array_equal(network.biases[-1], with_margin(fitted, card["margin"]).biases[-1])
