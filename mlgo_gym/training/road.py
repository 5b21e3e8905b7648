"""The whole road: labels around clang, a network from them, labels around that, and again, to a policy for the box."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mlgo_gym import __version__
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.model_files import file_digest
from mlgo_gym.storage.cache import key_of, write_atomically
from mlgo_gym.training.curves import silent
from mlgo_gym.training.imitation import Imitation, imitate_labels
from mlgo_gym.training.labelling import Labelling

Note = Callable[[str, int, int], None]
"""Called with a stage, how far it is, and how far it goes."""


@dataclass(frozen=True, slots=True)
class Road:
    """How a policy is made of a corpus.

    Attributes:
        labelling: the labels of each round; its policy is that of the first.
        imitation: how each round's network is made. The margin counts for the last one.
        rounds: how often.
    """

    labelling: Labelling
    imitation: Imitation = field(default_factory=Imitation)
    rounds: int = 3

    def run(self, output: Path, jobs: int = 1, note: Note = silent) -> Path:
        """Go the road, on from where an earlier run of the same settings was ended, and return the policy's file.

        Args:
            output: a folder. It gets `round-N/labels`, `round-N.safetensors` and `round-N.json` for each round, and
                `policy.safetensors` with its model card `policy.json`.
            jobs: how many processes.
            note: told of every step.

        Raises:
            MissingExtraError: a library is not installed.
            MlgoError: the folder has a road of other settings, or no label came out of a round.
        """
        self._claim(output)
        policy = self.labelling.policy
        folders: list[Path] = []
        cards: list[dict[str, Any]] = []
        for number in range(self.rounds):
            folder = output / f"round-{number}" / "labels"
            labelling = replace(self.labelling, policy=policy, seed=self.labelling.seed + number)
            total = len(labelling.modules(labelling.make()))
            with _timed(output / f"round-{number}" / "label-seconds.json"):
                for done, _ in enumerate(labelling.run(folder, jobs), start=1):
                    note(f"Labels, round {number + 1} of {self.rounds}", done, total)
            folders.append(folder)
            margin = self.imitation.margin if number == self.rounds - 1 else 0.0
            file = output / f"round-{number}.safetensors"
            cards.append(self._train(folders, file, replace(self.imitation, margin=margin, jobs=jobs), note))
            policy = f"mlp:{file}"
        final = output / "policy.safetensors"
        write_atomically(final, file.read_bytes())
        self._write_card(output, final, cards)
        return final

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

    def _train(self, folders: list[Path], file: Path, imitation: Imitation, note: Note) -> dict[str, Any]:
        card = file.with_suffix(".json")
        depends = key_of(
            [sorted(file_digest(path) for path in folder.glob("parts/*.parquet")) for folder in folders],
            {**asdict(imitation), "jobs": 1},
        )
        if card.exists() and file.exists():
            known: dict[str, Any] = json.loads(card.read_bytes())
            if known["depends"] == depends and known["digest"] == file_digest(file):
                return known
        started = time.monotonic()
        steps = imitation.network.steps
        imitated = imitate_labels(
            folders, imitation, note=lambda step, _: note(f"Network {file.stem}", step + 1, steps)
        )
        imitated.network.save(file)
        known = {
            "depends": depends,
            "digest": file_digest(file),
            "seconds": round(time.monotonic() - started, 1),
            **imitated.facts(),
        }
        write_atomically(card, (json.dumps(known, indent=1) + "\n").encode())
        return known

    def _write_card(self, output: Path, final: Path, cards: list[dict[str, Any]]) -> None:
        env = self.labelling.make()
        labelled = [
            json.loads((output / f"round-{number}" / "label-seconds.json").read_bytes())["seconds"]
            for number in range(self.rounds)
        ]
        card = {
            "name": final.stem,
            "sha256": file_digest(final),
            "mlgo_gym": __version__,
            "clang": env.toolchain.version_text,
            "settings": self._settings(),
            "modules": len(self.labelling.modules(env)),
            "rounds": [{**facts, "label_seconds": seconds} for facts, seconds in zip(cards, labelled, strict=True)],
            "seconds": round(sum(labelled) + sum(facts["seconds"] for facts in cards), 1),
        }
        write_atomically(final.with_suffix(".json"), (json.dumps(card, indent=1) + "\n").encode())


@contextmanager
def _timed(path: Path) -> Iterator[None]:
    """Add the wall-clock seconds of the block to those in a file, so that runs that were ended count too."""
    before = json.loads(path.read_bytes())["seconds"] if path.exists() else 0.0
    started = time.monotonic()
    try:
        yield
    finally:
        seconds = round(before + time.monotonic() - started, 1)
        write_atomically(path, json.dumps({"seconds": seconds}).encode())
