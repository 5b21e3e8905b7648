"""A network that learned from labels, in a file; it is made again only when something that it depends on is another."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlgo_gym.policies.model_files import file_digest
from mlgo_gym.storage.cache import key_of, write_atomically
from mlgo_gym.training.curves import silent
from mlgo_gym.training.imitation import Imitation, imitate_labels
from mlgo_gym.training.label_store import SUFFIX


def labelled_network(
    labels: Sequence[Path],
    file: Path,
    imitation: Imitation,
    *,
    without: Collection[str] = (),
    note: Callable[[int, float], None] = silent,
) -> dict[str, Any]:
    """Make a network of labels, unless its file is there and depends on the same, and return what is known of it.

    Args:
        labels: as `imitate_labels()` takes them.
        file: the network's; what it depends on is written beside it, as `.json`.
        imitation: how it is made.
        without: the digests of modules whose labels are passed over, as `imitate_labels()` takes them.
        note: called with step and loss of the distillation now and then.

    Raises:
        MissingExtraError: LightGBM, PyTorch or pyarrow is not installed.
        MlgoError: as `imitate_labels()` has it.
    """
    card = file.with_suffix(".json")
    depends = key_of(
        [sorted(file_digest(path) for path in _files(folder)) for folder in labels],
        {**asdict(imitation), "jobs": 1},
        sorted(without),
    )
    if card.exists() and file.exists():
        known: dict[str, Any] = json.loads(card.read_bytes())
        if known["depends"] == depends and known["digest"] == file_digest(file):
            return known
    imitated = imitate_labels(labels, imitation, without=without, note=note)
    file.parent.mkdir(parents=True, exist_ok=True)
    imitated.network.save(file)
    known = {"depends": depends, "digest": file_digest(file), **imitated.facts()}
    write_atomically(card, (json.dumps(known, indent=1) + "\n").encode())
    return known


def _files(labels: Path) -> list[Path]:
    return [labels] if labels.suffix == SUFFIX else list(labels.glob(f"parts/*{SUFFIX}"))
