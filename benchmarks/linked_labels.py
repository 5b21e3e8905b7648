"""Whether labels with the linked price teach more than labels of bytes: the same flips by both prices.

    mlgo-gym label CORPORA --callee-features --compiles 8 --output runs/bytes
    mlgo-gym label CORPORA --callee-features --compiles 8 --metric estimated-linked --output runs/linked
    python -m benchmarks.linked_labels --bytes runs/bytes --linked runs/linked --output docs/results/linked_labels.json

Prints how often the price changes the sign of a label, and the bytes that the flips which save object bytes save in
links. Then it fits trees to the labels of all projects but one by each price, and adds up the linked bytes that their
answers save in the excluded project.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measuring import command_line, write_json
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.training.labels import LABELS, Labels, joined, read_labels
from mlgo_gym.training.tree_imitation import boosted_trees

parquet: Any = importlib.import_module("pyarrow.parquet")

Floats = npt.NDArray[np.float64]
MARGINS = (0.0, 0.3, 0.7)
LEAST = 0.5
"""Bytes below which a label has no sign."""

_SITE = ("module", "context", "visit", "position", "callee")


def sites(folder: Path) -> Iterator[tuple[Any, ...]]:
    """Yield project and site of each label of a folder, in the order of `read_labels()`."""
    for line in sorted(LABELS.lines(folder), key=lambda line: str(line["module"])):
        if line["labels"]:
            table = parquet.read_table(LABELS.part(folder, line["module"]))
            yield from zip(*(table[name].to_pylist() for name in ("project", *_SITE)), strict=True)


def priced(labels: Labels, difference: Floats) -> Labels:
    """Return labels with another difference between inlining a call and keeping it."""
    costs = np.zeros((len(labels), 2))
    costs[np.arange(len(labels)), 1 - labels.answers] = np.where(labels.answers, -difference, difference)
    return replace(labels, costs=costs)


def saved(labels: Labels) -> Floats:
    """Return the bytes that each flip saves."""
    return np.where(labels.answers, labels.bytes, -labels.bytes)


def compare(text: Labels, linked: Labels, projects: npt.NDArray[np.str_]) -> dict[str, Any]:
    """Return the comparison of the same labels by two prices."""
    has_sign = np.abs(linked.bytes) > LEAST
    helps, helps_linked = saved(text) > LEAST, saved(linked) > LEAST
    default = linked.observations[:, linked.features.index(INLINING_DEFAULT)].astype(int)
    gains: dict[str, dict[str, float]] = {name: dict.fromkeys(map(str, MARGINS), 0.0) for name in ("bytes", "linked")}
    for project in sorted(set(projects)):
        train, test = np.flatnonzero(projects != project), np.flatnonzero(projects == project)
        for name, labels in (("bytes", text), ("linked", linked)):
            logits = boosted_trees(labels.select(train), 3, 150)(linked.observations[test])
            for margin in MARGINS:
                answers = np.where(logits > margin, 1, np.where(logits < -margin, 0, default[test]))
                changes = (answers - linked.answers[test]) * linked.bytes[test]
                gains[name][str(margin)] = round(gains[name][str(margin)] - float(changes.sum()), 1)
    return {
        "labels": len(linked),
        "projects": len(set(projects)),
        "other-sign": int((((text.bytes > 0) != (linked.bytes > 0)) & has_sign).sum()),
        "object-bytes": round(float(saved(text)[helps].sum())),
        "their-linked-bytes": round(float(saved(linked)[helps].sum())),
        "best-linked-bytes": round(float(saved(linked)[helps_linked].sum())),
        "saved-by-trees": gains,
    }


def read_pairs(text: Sequence[Path], linked: Sequence[Path]) -> tuple[Labels, Labels, npt.NDArray[np.str_]]:
    """Return the labels that both groups of folders have, by both prices, and the project of each."""
    prices = {
        site: price
        for folder in text
        for site, price in zip(sites(folder), read_labels([folder]).bytes.tolist(), strict=True)
    }
    labels = joined([read_labels([folder]) for folder in linked])
    found = [site for folder in linked for site in sites(folder)]
    chosen = np.array([index for index, site in enumerate(found) if site in prices])
    kept = labels.select(chosen)
    difference = np.array([prices[found[index]] for index in chosen], np.float64)
    return priced(kept, difference), kept, np.array([found[index][0] for index in chosen])


def main() -> None:
    """Compare, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--bytes", nargs="+", type=Path, required=True, help="folders of labels of bytes")
    parser.add_argument("--linked", nargs="+", type=Path, required=True, help="folders of labels by the linked price")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    options = parser.parse_args()
    found = compare(*read_pairs(options.bytes, options.linked))
    for name, value in found.items():
        print(f"{name:20} {value}")
    write_json(options.output, found)


if __name__ == "__main__":
    main()
