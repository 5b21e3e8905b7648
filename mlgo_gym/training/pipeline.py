"""The training pipeline: collect data, fit a network, choose a margin, save it.

Each training method is a `Pipeline` of parts. A new method is a new collector, a new fit, or both:

| method | collector | fit | choice |
|---|---|---|---|
| `train imitation`, inlining | stored labels | `TreeImitation` | `MarginChoice` |
| `train imitation`, evictions by flips | stored labels | `EvictionImitation` | `MarginChoice` |
| `train policy` | `LabelRounds` | `TreeImitation` | `MarginChoice` |
| `train clone`, `imitate()` | `expert_rollouts()` | `Classification` | |

`train evolve` compares whole compiles and has no labels, so it is a loop of its own. `BestCheckpoint` is the choice for
training loops outside this package.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from mlgo_gym import __version__
from mlgo_gym.cache import write_atomically
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.training_digests import sidecar, write_sidecar_digests
from mlgo_gym.errors import MlgoError
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.model_files import file_digest
from mlgo_gym.policies.network import Network
from mlgo_gym.scheduling import Execution
from mlgo_gym.training.checkpoint_choice import VALIDATION_MODULES, MarginChoice
from mlgo_gym.training.label_collector import Labelling, LabelRounds, drawn_modules
from mlgo_gym.training.labels import Labels
from mlgo_gym.training.monitor import Monitor
from mlgo_gym.training.tree_imitation import TreeImitation

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


@dataclass(frozen=True, slots=True)
class PolicyTraining:
    """Training of a policy from a corpus.

    Attributes:
        labelling: The labels of each round; its policy is that of the first round.
        fit: Fits the network of each round.
        rounds: Number of rounds (≥ 1).
        margins: One margin, or several to choose from by the validation split of `validation`.
        validation: Corpus at the level that the policy is for.
    """

    labelling: Labelling
    fit: TreeImitation = field(default_factory=TreeImitation)
    rounds: int = 3
    margins: tuple[float, ...] = (0.0,)
    validation: str = ""

    def run(self, output: Path, execution: Execution = Execution(), monitor: Monitor | None = None) -> Path:
        """Train, and return the file of the policy. The same call continues an interrupted run.

        Args:
            output: Folder for `round-N/labels`, `validation` (results of the margins) and
                `policy.safetensors` with its model card `policy.json`.
            execution: Where the compiles run. Default: this process.
            monitor: Receives the progress and the results.

        Raises:
            MissingExtraError: a library is not installed.
            MlgoError: the folder has labels of other settings, a round has no label, or the validation split is empty.
        """
        monitor = monitor or Monitor()
        corpus = self._validation() if len(self.margins) > 1 else None
        folder, labelling = output / "validation", self.labelling
        choice = MarginChoice(
            self.fit, self.margins, corpus, folder, labelling.environment, labelling.arguments, execution
        )
        policy = output / "policy.safetensors"
        collect = LabelRounds(labelling, output, execution).collect
        network = Pipeline(collect, self.fit, choice, self.rounds).run(policy, monitor)
        self._write_card(policy, network.features, monitor)
        return policy

    def _validation(self) -> Corpus:
        arguments = {**self.labelling.arguments, "corpus": self.validation}
        corpus = make_environment(self.labelling.environment, arguments).corpus.split("valid")
        names = drawn_modules(corpus, self.labelling.seed, self.labelling.largest, VALIDATION_MODULES)
        if not names:
            raise MlgoError(
                f"expected validation modules to choose a margin by, got none in the split valid of {self.validation}; "
                "use --margin"
            )
        return corpus.filter(names=names)

    def _write_card(self, policy: Path, features: tuple[str, ...], monitor: Monitor) -> None:
        env = self.labelling.make()
        (margin,) = monitor.results["margin"]
        card = {
            "name": policy.stem,
            "sha256": file_digest(policy),
            "mlgo_gym": __version__,
            "clang": env.toolchain.version_text,
            "labelling": asdict(self.labelling),
            "fit": self.fit.settings(),
            "validation": self.validation,
            "callee_features": env.setup.options.callee_features,
            "features": list(features),
            "modules": len(self.labelling.modules(env.corpus)),
            "rounds": monitor.results["network"][: self.rounds],
            "margin": margin["margin"],
            "margins": margin["tried"],
            "seconds": {kind: round(seconds, 1) for kind, seconds in monitor.seconds.items()},
        }
        write_atomically(policy.with_suffix(".json"), (json.dumps(card, indent=1) + "\n").encode())
