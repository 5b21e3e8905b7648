"""Evolution moves weights by the scores of samples, and an interrupted run resumes to the same result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym.corpus.training_digests import sidecar, sidecar_digests
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.network import Network
from mlgo_gym.training import Evolution, Monitor
from mlgo_gym.training.evolution import AntitheticAdam, flatten
from mlgo_gym.training.monitor import Progress
from tests.policies.episodes import random_network

SMALL: dict[str, Any] = {"generations": 2, "directions": 4, "best": 2, "modules": 1, "deviation": 2.0}


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """A small network."""
    file = tmp_path / "start.safetensors"
    network = random_network(("cost_estimate", "callee_users"), 3, 1)
    replace(network, biases=tuple(map(np.zeros_like, network.biases))).save(file)
    return file


def interrupt(progress: Progress) -> None:
    if progress.values:
        raise KeyboardInterrupt


def evolution(corpus: Path, **settings: Any) -> Evolution:
    return Evolution("mlgo/Inline-v0", {"corpus": str(corpus)}, **{**SMALL, **settings})


def test_scores_are_those_of_compiles_and_an_interrupted_run_resumes(corpus: Path, start: Path, tmp_path: Path) -> None:
    sidecar(start).write_text(f"{'a' * 64}  # earlier\n")
    settings, monitor = evolution(corpus), Monitor()
    complete = settings.run(start, tmp_path / "complete.safetensors", monitor=monitor)
    assert not np.array_equal(flatten(complete), flatten(Network.load(start)))
    assert [result["generation"] for result in monitor.results["evolution"]] == [0, 1]
    assert all(np.isfinite(result["reduction"]) and result["reduction"] for result in monitor.results["evolution"])
    digests = sidecar_digests(tmp_path / "complete.safetensors")
    assert digests["a" * 64] == "earlier", "the modules of the start count"
    assert 1 < len(digests) <= 3
    resumed = tmp_path / "resumed.safetensors"
    with pytest.raises(KeyboardInterrupt):
        settings.run(start, resumed, monitor=Monitor(interrupt))
    rest = Monitor()
    settings.run(start, resumed, monitor=rest)
    assert [result["generation"] for result in rest.results["evolution"]] == [1]
    assert resumed.read_bytes() == (tmp_path / "complete.safetensors").read_bytes()
    with pytest.raises(MlgoError, match="expected a checkpoint of this run"):
        evolution(corpus, seed=1).run(start, resumed)


def test_settings_out_of_range_are_refused(corpus: Path, start: Path, tmp_path: Path) -> None:
    with pytest.raises(MlgoError, match=r"best ≤ directions and deviation > 0, got 100, 8, 9 of 8 and 0\.05"):
        Evolution("mlgo/Inline-v0", {}, best=9)
    with pytest.raises(MlgoError, match="got none that is small enough"):
        evolution(corpus, largest=1).run(start, tmp_path / "n.safetensors")


def test_steps_climb_and_repeat_themselves() -> None:
    settings = Evolution("mlgo/Inline-v0", {}, directions=4, best=2, deviation=0.1, step=0.05)
    start = np.array([1.0, -2.0, 3.0])
    ends = []
    for _ in range(2):
        strategy = AntitheticAdam(start, settings)
        for number in range(60):
            samples = strategy.ask(np.random.default_rng(number))
            strategy.tell(np.array([-float(np.square(sample).sum()) for sample in samples]))
        ends.append(strategy.weights)
    assert np.array_equal(ends[0], ends[1])
    assert np.square(ends[0]).sum() < 0.2 * np.square(start).sum()
