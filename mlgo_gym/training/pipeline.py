"""The training pipeline: collect data, fit a network, choose a margin, save it.

Each training method is a `Pipeline` of parts. A new method is a new collector, a new fit, or both:

| method | collector | fit | choice |
|---|---|---|---|
| `train imitation`, inlining | stored labels | `TreeImitation` | `MarginChoice` |
| `train imitation`, evictions by flips | stored labels | `EvictionImitation` | `MarginChoice` |
| `train imitation`, other tasks | stored labels | `Classification` | |
| `train policy` | `LabelRounds` | `TreeImitation` | `MarginChoice` |
| `train clone`, `imitate()` | `expert_rollouts()` | `Classification` | |

`train evolve` compares whole compiles and has no labels, so it is a loop of its own. `BestCheckpoint` is the choice for
training loops outside this package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mlgo_gym.corpus.training_digests import sidecar, write_sidecar_digests
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.network import Network
from mlgo_gym.training.checkpoint_choice import MarginChoice
from mlgo_gym.training.labels import Labels
from mlgo_gym.training.monitor import Monitor

Collector = Callable[[int, Network | None, Monitor], Labels]
"""Collects the labels of a round, given its number and the network of the round before (None in round 0)."""


class Fit(Protocol):
    """Fits a network to labels."""

    def fit(self, rounds: Sequence[Labels], monitor: Monitor) -> Network:
        """Return a network fitted to the labels of all rounds so far; the same labels give the same network."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A training method.

    Attributes:
        collect: Collects the labels of each round.
        fit: Fits a network to the labels of all rounds so far.
        choice: Chooses the network to save. Default: the network of the last round.
        rounds: Number of rounds (≥ 1).
    """

    collect: Collector
    fit: Fit
    choice: MarginChoice | None = None
    rounds: int = 1

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise MlgoError(f"expected rounds ≥ 1, got {self.rounds}; a network needs a round of labels")

    def run(self, output: Path | None = None, monitor: Monitor | None = None) -> Network:
        """Train, and return the network.

        Args:
            output: File for the network, in safetensors. `OUTPUT.training.txt` lists the digests of the modules that
                the network depends on, if all are known. Default: nothing is written.
            monitor: Receives the progress and the results.
        """
        monitor = monitor or Monitor()
        rounds = [self.collect(0, None, monitor)]
        network = self.fit.fit(rounds, monitor)
        for number in range(1, self.rounds):
            rounds.append(self.collect(number, network, monitor))
            network = self.fit.fit(rounds, monitor)
        if self.choice is not None:
            network = self.choice.choose(network, rounds, monitor)
        if output is not None:
            network.save(output)
            modules: dict[str, str] = {}
            for labels in rounds:
                if labels.trained_on is None:
                    sidecar(output).unlink(missing_ok=True)
                    return network
                modules |= labels.trained_on
            write_sidecar_digests(output, modules, () if self.choice is None else self.choice.corpus or ())
        return network
