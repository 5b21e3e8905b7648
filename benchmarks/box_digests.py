"""What the policies in the box were trained on, by digest: written beside them, for `mlgo-gym leaderboard` to read.

The labels that they learned from name their datasets and modules; the catalogue knows these modules' sources.

    python -m benchmarks.box_digests
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.digests import sidecar
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.evaluation.module_facts import ModuleFacts
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies.box import box_file

LABELS = Path(__file__).parent.parent / "docs/results/labels"
LEARNED_FROM = {"inline-os-plain": ("Os", "Oz"), "inline-oz-plain": ("Oz",), "inline-oz-calls": ("Oz-with-calls",)}
"""The files of labels that each policy learned from; a name begins with the level."""

DIGITS = 16
"""So many of a digest are enough to tell modules apart, and the package stays small."""

PER_LINE = 6


def digests_of(labels: str) -> set[str]:
    """Return the digests of the modules that a file of labels is about."""
    level = labels.partition("-")[0]
    parquet: Any = importlib.import_module("pyarrow.parquet")
    table = parquet.read_table(LABELS / f"{labels}.parquet", columns=["dataset", "module"])
    toolchain = find_toolchain("bundled")
    modules: dict[str, set[str]] = {}
    for row in table.to_pylist():
        modules.setdefault(row["dataset"], set()).add(row["module"])
    found = set()
    for dataset, names in modules.items():
        corpus = open_corpus(f"{dataset}@{level}", toolchain=toolchain)
        for name in names:
            facts = ModuleFacts.of(corpus.module(name))
            found.add((facts.source or facts.digest)[:DIGITS])
    return found


def main() -> None:
    """Write the file beside each policy."""
    of = {labels: digests_of(labels) for labels in {each for files in LEARNED_FROM.values() for each in files}}
    for name, files in LEARNED_FROM.items():
        digests = sorted(set().union(*(of[labels] for labels in files)))
        lines = [" ".join(digests[begin : begin + PER_LINE]) for begin in range(0, len(digests), PER_LINE)]
        heading = f"# SHA-256, {DIGITS} digits of each, of the {len(digests)} sources that {name} was trained on\n"
        sidecar(box_file(name, calls=True)).write_text(heading + "".join(f"{line}\n" for line in lines))
        print(f"{name}: {len(digests)} sources")


if __name__ == "__main__":
    main()
