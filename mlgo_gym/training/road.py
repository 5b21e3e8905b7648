"""The whole road: labels around clang, a network from them, labels around that, and again, to a policy for the box."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mlgo_gym import __version__
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.digests import training_digest, write_sidecar
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.policies.model_files import file_digest
from mlgo_gym.policies.network import Network
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.training.curves import silent
from mlgo_gym.training.imitation import Imitation
from mlgo_gym.training.labelled_network import labelled_network
from mlgo_gym.training.labelling import Labelling
from mlgo_gym.training.margin import Base
from mlgo_gym.training.margin_choice import VALIDATION_MODULES, choose_margin
from mlgo_gym.training.road_clock import Note, RoadClock


@dataclass(frozen=True, slots=True)
class Road:
    """How a policy is made of a corpus.

    Attributes:
        labelling: the labels of each round; its policy is that of the first.
        imitation: how each round's network is made. The margin counts for the last one.
        rounds: how often.
        margins: those of which the best is taken, by the validation split of `validation`, in place of the margin of
            `imitation`. None are tried if it is empty.
        validation: the corpus at the level that the policy is for; its validation split is what margins are chosen by.
    """

    labelling: Labelling
    imitation: Imitation = field(default_factory=Imitation)
    rounds: int = 3
    margins: tuple[float, ...] = ()
    validation: str = ""

    def run(self, output: Path, jobs: int | None = None, note: Note = silent, *, ray: str | None = None) -> Path:
        """Go the road, on from where an earlier run of the same settings was ended, and return the policy's file.

        Args:
            output: a folder. It gets `round-N/labels`, `round-N.safetensors` and `round-N.json` for each round,
                `validation` with what the margins gave, and `policy.safetensors` with its model card `policy.json`.
            jobs: how many processes; 1 by default, and with `ray` one for each processor of the cluster.
            note: told of every step, with the time used and left.
            ray: the address of a Ray cluster, as `mlgo_gym.scheduling.RayCluster` takes it, that does the compiles.

        Raises:
            MissingExtraError: a library is not installed.
            MlgoError: the folder has a road of other settings, no label came out of a round, or there is nothing to
                choose a margin by.
        """
        self._claim(output)
        valid = self._validation() if self.margins else None
        kinds = ["labels", "network"] * self.rounds
        kinds[-1:] = ["network", "margin", "network"] if self.margins else ["network"]
        clock = RoadClock(output / "seconds.json", kinds, note)
        policy = self.labelling.policy
        folders: list[Path] = []
        cards: list[dict[str, Any]] = []
        plain = replace(self.imitation, margin=0.0, jobs=jobs or 1)
        for number in range(self.rounds):
            folder = output / f"round-{number}" / "labels"
            labelling = replace(self.labelling, policy=policy, seed=self.labelling.seed + number)
            total = len(labelling.modules(labelling.make()))
            with clock.stage(2 * number, f"labels, round {number + 1} of {self.rounds}") as advance:
                for done, _ in enumerate(labelling.run(folder, jobs, ray=ray), start=1):
                    advance(done, total)
            folders.append(folder)
            if number == self.rounds - 1:
                break
            file = output / f"round-{number}.safetensors"
            with clock.stage(2 * number + 1, f"network, round {number + 1} of {self.rounds}") as advance:
                cards.append(labelled_network(folders, file, plain, note=_step(advance, plain)))
            policy = f"mlp:{file}"
        margin = self.imitation.margin
        tried: list[dict[str, Any]] = []
        if valid is not None:
            margin, tried = self._choose(output / "validation", folders, plain, valid, clock, jobs, ray)
        file = output / f"round-{self.rounds - 1}.safetensors"
        with clock.stage(len(kinds) - 1, "network, the last") as advance:
            last = replace(plain, margin=margin)
            cards.append(labelled_network(folders, file, last, note=_step(advance, last)))
        final = output / "policy.safetensors"
        write_atomically(final, file.read_bytes())
        self._write_card(final, cards, margin, tried, clock)
        return final

    def _validation(self) -> Corpus:
        """Return the modules that the margin is chosen by.

        Raises:
            MlgoError: there are none.
        """
        given = {**self.labelling.arguments, "corpus": self.validation}
        corpus = make_environment(self.labelling.environment, given).corpus.split("valid")
        names = replace(self.labelling, limit=VALIDATION_MODULES, most=None).drawn(corpus)
        if not names:
            raise MlgoError(f"the validation split of {self.validation} has no module to choose a margin by; give one")
        return corpus.filter(names=names)

    def _choose(
        self,
        folder: Path,
        folders: list[Path],
        plain: Imitation,
        valid: Corpus,
        clock: RoadClock,
        jobs: int | None,
        ray: str | None,
    ) -> tuple[float, list[dict[str, Any]]]:
        """Choose the margin with a network that has learned from all but the validation split."""
        file = folder / "network.safetensors"
        with clock.stage(2 * self.rounds - 1, "network for choosing the margin") as advance:
            apart = frozenset(map(training_digest, self.labelling.make().corpus.split("valid")))
            labelled_network(folders, file, plain, without=apart, note=_step(advance, plain))
        with clock.stage(2 * self.rounds, "margins on validation modules") as advance:
            return choose_margin(
                Network.load(file),
                self.margins,
                Base.parse(self.imitation.base),
                valid,
                folder,
                environment=self.labelling.environment,
                arguments=dict(self.labelling.arguments),
                jobs=jobs,
                ray=ray,
                note=advance,
            )

    def _learned_from(self, corpus: Corpus) -> list[Module]:
        """Return the modules of all rounds, and those that the margin was chosen by."""
        rounds = (replace(self.labelling, seed=self.labelling.seed + number) for number in range(self.rounds))
        names = {name for labelling in rounds for name in labelling.drawn(corpus)}
        return [corpus.module(name) for name in sorted(names)] + list(self._validation() if self.margins else ())

    def _settings(self) -> dict[str, Any]:
        settings = asdict(replace(self, imitation=replace(self.imitation, jobs=1)))
        loaded: dict[str, Any] = json.loads(json.dumps(settings))
        return loaded

    def _claim(self, output: Path) -> None:
        path = output / "road.json"
        if not path.exists():
            write_atomically(path, (json.dumps(self._settings(), indent=1) + "\n").encode())
        try:
            found = json.loads(path.read_bytes())
        except ValueError as error:
            raise MlgoError(f"{path} is damaged: {error}; choose another output") from error
        if found != self._settings():
            raise MlgoError(f"{output} has a road of other settings: {found}; choose another output")

    def _write_card(
        self,
        final: Path,
        cards: list[dict[str, Any]],
        margin: float,
        tried: list[dict[str, Any]],
        clock: RoadClock,
    ) -> None:
        env = self.labelling.make()
        write_sidecar(final, self._learned_from(env.corpus))
        card = {
            "name": final.stem,
            "sha256": file_digest(final),
            "mlgo_gym": __version__,
            "clang": env.toolchain.version_text,
            "settings": self._settings(),
            "calls": env.setup.settings.calls,
            "features": list(Network.load(final).features),
            "modules": len(self.labelling.modules(env)),
            "rounds": cards,
            "margin": margin,
            "margins": tried,
            "stages": clock.seconds,
            "seconds": round(sum(clock.seconds.values()), 1),
        }
        write_atomically(final.with_suffix(".json"), (json.dumps(card, indent=1) + "\n").encode())


def _step(advance: Callable[[int, int], None], imitation: Imitation) -> Callable[[int, float], None]:
    return lambda step, _: advance(step + 1, imitation.network.steps)
