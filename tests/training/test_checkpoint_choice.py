"""The best checkpoint and the best margin on validation modules are chosen."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.corpus import open_corpus
from mlgo_gym.corpus.modules.training_digests import training_digest
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.policies.network import Network
from mlgo_gym.training import BestCheckpoint, MarginChoice, Monitor, TreeImitation, with_margin
from mlgo_gym.training.checkpoint_choice import MarginResult, best_margin
from tests.training.label_samples import inlining_labels

ENVIRONMENT = "mlgo/Inline-v0"


def constant(answer: int) -> Network:
    """Return a network with the same answer everywhere."""
    weights = (np.zeros((2, 4), np.float32), np.zeros((4, 1), np.float32))
    biases = (np.zeros(4, np.float32), np.array([2.0 * answer - 1], np.float32))
    return Network(("cost_estimate", "inlining_default"), weights, biases, "relu", None)


def always(answer: int, file: Path) -> str:
    """Write a network with the same answer everywhere, and return it as a policy."""
    constant(answer).save(file)
    return f"mlp:{file}"


@pytest.fixture
def best(calls: Path, toolchain: Toolchain, tmp_path: Path) -> BestCheckpoint:
    """Before the first offer; one module with nine decisions, where inlining everything is smaller."""
    return BestCheckpoint(ENVIRONMENT, open_corpus(calls, toolchain=toolchain), tmp_path / "best.safetensors")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_better_one_is_kept_whichever_comes_first(
    order: tuple[int, ...], best: BestCheckpoint, tmp_path: Path
) -> None:
    policies = [always(answer, tmp_path / f"{answer}.safetensors") for answer in order]
    changes = {policy: best.offer(policy) for policy in policies}
    assert len(set(changes.values())) == 2
    smallest = min(changes, key=lambda policy: changes[policy])
    assert best.change == changes[smallest]
    assert best.policy == f"mlp:{tmp_path / 'best.safetensors'}"
    assert (tmp_path / "best.safetensors").read_bytes() == Path(smallest.removeprefix("mlp:")).read_bytes()


def test_one_that_is_no_better_does_not_replace_it(best: BestCheckpoint, tmp_path: Path) -> None:
    change = best.offer(always(1, tmp_path / "one.safetensors"))
    again = tmp_path / "again.safetensors"
    weights = np.ones((1, 1), np.float32)
    Network(("cost_estimate",), (0 * weights,), (3 * weights[0],), "relu", None).save(again)
    assert best.offer(f"mlp:{again}") == change
    assert (tmp_path / "best.safetensors").read_bytes() == (tmp_path / "one.safetensors").read_bytes()


def test_one_that_fails_is_not_kept(broken: Path, toolchain: Toolchain, tmp_path: Path) -> None:
    policy = always(1, tmp_path / "one.safetensors")
    failing = BestCheckpoint(ENVIRONMENT, open_corpus(broken, toolchain=toolchain), tmp_path / "kept.safetensors")
    assert failing.offer(policy) == math.inf
    assert failing.policy == ""
    assert not (tmp_path / "kept.safetensors").exists()


def test_a_missing_file_is_an_error(best: BestCheckpoint, tmp_path: Path) -> None:
    with pytest.raises(MlgoError, match=r"nothing\.safetensors"):
        best.offer(f"mlp:{tmp_path / 'nothing.safetensors'}")


def results(*rows: tuple[float, float, int]) -> list[MarginResult]:
    return [MarginResult(margin, mean, mean, worse, 100) for margin, mean, worse in rows]


@pytest.mark.parametrize(
    ("found", "taken"),
    [
        (results((0.0, -0.02, 3), (0.5, -0.01, 2)), 0.0),
        (results((0.0, -0.02, 3), (0.5, -0.0196, 3)), 0.5),  # as good, with fewer deviations
        (results((0.0, -0.02, 8), (0.5, -0.01, 7), (1.0, -0.001, 0)), 0.5),  # one in twelve is too many
        (results((0.0, -0.02, 30), (0.5, -0.015, 20), (1.0, -0.01, 20)), 0.5),  # every margin is bad
    ],
)
def test_the_best_margin_is_taken_of_those_with_few_larger_modules(found: list[MarginResult], taken: float) -> None:
    assert best_margin(found) == taken


def test_one_margin_needs_no_compile() -> None:
    monitor = Monitor()
    network = MarginChoice(TreeImitation(), (0.7,)).choose(constant(1), [], monitor)
    assert np.array_equal(network.biases[-1], with_margin(constant(1), 0.7).biases[-1])
    assert monitor.results["margin"] == [{"margin": 0.7, "tried": []}]


def test_several_margins_are_compared_by_a_network_without_the_validation_modules(
    calls: Path, toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus(calls, toolchain=toolchain)
    excluded: list[set[str]] = []

    def fit(self: TreeImitation, rounds: object, monitor: Monitor, exclude: set[str]) -> Network:
        excluded.append(set(exclude))
        return constant(0)

    monkeypatch.setattr(TreeImitation, "fit", fit)
    choice = MarginChoice(TreeImitation(), (0.0, 20.0), corpus, tmp_path)
    monitor = Monitor()
    network = choice.choose(constant(1), [inlining_labels(10)], monitor)
    assert excluded == [set(map(training_digest, corpus))]
    (chosen,) = monitor.results["margin"]
    never, same_as_clang = chosen["tried"]
    assert never["mean"] != 0 == same_as_clang["mean"]
    assert [tried["modules"] for tried in chosen["tried"]] == [1, 1]
    assert chosen["margin"] == min(chosen["tried"], key=lambda tried: tried["mean"])["margin"]
    assert np.array_equal(network.biases[-1], with_margin(constant(1), chosen["margin"]).biases[-1])
    assert [module.name for module in choice.validation] == list(corpus.names)


def test_several_margins_need_validation_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TreeImitation, "fit", lambda *_: constant(1))
    with pytest.raises(MlgoError, match="expected validation modules to choose a margin by, got none"):
        MarginChoice(TreeImitation(), (0.0, 1.0)).choose(constant(1), [], Monitor())
