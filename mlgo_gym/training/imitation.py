"""Imitation of labelled decisions: from folders of labels to a network's file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_gym.corpus.digests import SHORTEST
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.network import Network
from mlgo_gym.training.curves import silent
from mlgo_gym.training.distillation import NetworkSettings, distil
from mlgo_gym.training.label_store import Labels, read_labels
from mlgo_gym.training.margin import Base, with_margin
from mlgo_gym.training.teacher import Teacher, TeacherSettings, estimate

MARGINS = (0.0, 0.3, 0.6, 0.9, 1.3, 2.0)
"""The margins that are estimated."""


@dataclass(frozen=True, slots=True)
class Imitation:
    """How a network is made of labels.

    Attributes:
        teacher: the trees.
        network: the network that they are distilled into.
        margin: how sure the network must be to deviate from its base.
        base: what it deviates from, as the name of a policy: `default` or `threshold:K`.
        held_out: projects that are kept for the estimates.
        seed: the source of chance.
        jobs: how many threads the trees take.
    """

    teacher: TeacherSettings = field(default_factory=TeacherSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    margin: float = 0.0
    base: str = "default"
    held_out: tuple[str, ...] = ()
    seed: int = 0
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class Imitated:
    """A network that was trained, and what its labels say of it.

    Attributes:
        network: the network, its margin folded in.
        labels: how many labels it was trained on.
        modules: of how many modules.
        estimates: the mean relative change of the modules by the labels that count, by name: the base, `labels` (each
            decision as its label says: the most that there is), `teacher`, and `network` at each of `MARGINS`.
        held_out: whether the estimates are on held-out labels; otherwise they are on those that were learned from.
        agreement: the share of the same labels at which network and teacher decide alike.
        learned: a name by the digest of each module that it learned from; None where labels do not tell the digest.
    """

    network: Network
    labels: int
    modules: int
    estimates: dict[str, float]
    held_out: bool
    agreement: float
    learned: dict[str, str] | None

    def facts(self) -> dict[str, Any]:
        """Return JSON-able data about it."""
        names = ("labels", "modules", "estimates", "held_out", "agreement")
        return {name: getattr(self, name) for name in names}


def imitate_labels(
    folders: Sequence[Path],
    settings: Imitation = Imitation(),
    *,
    without: Collection[str] = (),
    note: Callable[[int, float], None] = silent,
) -> Imitated:
    """Return the network that learned from the labels of some folders; the same one for the same seed.

    Args:
        folders: what `mlgo-gym label` has written, or Parquet files of labels; several rounds count together.
        settings: how.
        without: what tells modules whose labels are passed over, at whatever level, as `training_digest()` has it.
        note: called with step and loss of the distillation now and then.

    Raises:
        MissingExtraError: LightGBM, PyTorch or pyarrow is not installed.
        MlgoError: there are no labels, they are of different kinds, a project that is held out has none, or labels
            are to be passed over and do not tell their modules.
    """
    base = Base.parse(settings.base)
    labels = read_labels(folders)
    if without:
        labels = _all_but(labels, without)
    missing = sorted(set(settings.held_out) - set(labels.projects.tolist()))
    if missing:
        known = ", ".join(sorted(set(labels.projects.tolist())))
        raise MlgoError(f"{', '.join(missing)} were to be held out, and have no label; there are {known}")
    out = np.isin(labels.projects, settings.held_out)
    learned = select(labels, ~out)
    teacher = Teacher(learned, settings.teacher, seed=settings.seed, jobs=settings.jobs)
    plain = distil(
        labels.features, learned.observations, teacher.logits, settings.network, seed=settings.seed, note=note
    )
    judged = select(labels, out) if out.any() else learned
    estimates, agreement = _judge(judged, teacher, plain, base)
    return Imitated(
        with_margin(plain, settings.margin, base),
        len(learned),
        len(set(learned.modules.tolist())),
        estimates,
        bool(out.any()),
        agreement,
        _told(learned),
    )


def _all_but(labels: Labels, digests: Collection[str]) -> Labels:
    if not all(labels.digests.tolist()):
        raise MlgoError("some labels do not tell the digest of their module, so none can be kept apart: label again")
    apart = {digest[:SHORTEST] for digest in digests}
    chosen = select(labels, [digest[:SHORTEST] not in apart for digest in labels.digests.tolist()])
    if not len(chosen):
        raise MlgoError("every label is of a module that is kept apart; label modules of the training split as well")
    return chosen


def _told(labels: Labels) -> dict[str, str] | None:
    """Return a name of each module by its digest; None where a label does not tell it."""
    if not all(labels.digests.tolist()):
        return None
    pairs = sorted(set(zip(labels.digests.tolist(), labels.modules.tolist(), strict=True)))
    return {digest: name.partition(":")[2] for digest, name in reversed(pairs)}


def _judge(labels: Labels, teacher: Teacher, network: Network, base: Base) -> tuple[dict[str, float], float]:
    usual = base.answers(labels.features, labels.observations)
    columns = [labels.features.index(name) for name in network.features]
    taught = teacher.logits(labels.observations)
    learned = network(labels.observations[:, columns].astype(np.float32))[:, 0]
    best = np.where(labels.bytes < 0, 1, np.where(labels.bytes > 0, 0, labels.answers))
    estimates = {
        base.name: estimate(labels, usual),
        "labels": estimate(labels, best),
        "teacher": estimate(labels, taught > 0),
    }
    for margin in MARGINS:
        answers = np.where(usual == 1, learned > -margin, learned > margin)
        estimates[f"network, margin {margin:g}"] = estimate(labels, answers)
    return estimates, float(np.mean((taught > 0) == (learned > 0)))


def select(labels: Labels, chosen: Any) -> Labels:
    """Return some of the labels.

    Args:
        labels: the labels.
        chosen: numbers, or a mask.
    """
    names = ("observations", "answers", "bytes", "text", "share", "modules", "digests", "projects")
    return Labels(labels.features, *(getattr(labels, name)[chosen] for name in names))
