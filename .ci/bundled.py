"""Writes the files of a bundled policy.

    PYTHONPATH=. python .ci/bundled.py card inline-oz  # results into NAME.json
    PYTHONPATH=. python .ci/bundled.py training inline-oz oz.safetensors.training.txt  # digests of the training sources

`card` writes the policy's rows of docs/results; `make numbers` writes the tables of `NAME.md`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.measuring import command_line, read_json
from docs.site.measurements import facts_of, sizes_of
from docs.site.tables import CARDS
from mlgo_gym.cache import write_atomically
from mlgo_gym.corpus.training_digests import SHORT_DIGEST, read_digests, sidecar
from mlgo_gym.policies.loading import NETWORKS, file_digest
from mlgo_gym.policies.network import Network

DIGESTS_PER_LINE = 6


def card_facts(card: str) -> dict[str, Any]:
    """Return the results of a bundled policy on the test split."""
    found = facts_of(sizes_of(card.removeprefix("inline-").title(), "bundled policy"))
    counts = {key: found[key] for key in ("modules", "interval", "total", "better", "worse")}
    equal = counts["modules"] - counts["better"] - counts["worse"]
    return {**counts, "equal": equal, "geometric_mean": found["mean"]}


def write_card(name: str) -> None:
    """Write the results into the card of a network."""
    file = NETWORKS / f"{name}.safetensors"
    path = file.with_suffix(".json")
    card = read_json(path, {"name": name})
    card |= {"sha256": file_digest(file), "features": len(Network.load(file).features)}
    card |= {"test": card_facts(name)} if name in CARDS else {}
    write_atomically(path, (json.dumps(card, indent=2, ensure_ascii=False) + "\n").encode())


def write_digests(name: str, training: Path) -> None:
    """Write the digests of the training sources in a shorter form."""
    digests = sorted({digest[:SHORT_DIGEST] for digest in read_digests(training)})
    lines = [" ".join(digests[at : at + DIGESTS_PER_LINE]) for at in range(0, len(digests), DIGESTS_PER_LINE)]
    heading = f"# SHA-256, {SHORT_DIGEST} digits of each, of the {len(digests)} sources that {name} was trained on"
    sidecar(NETWORKS / f"{name}.safetensors").write_text("".join(f"{line}\n" for line in (heading, *lines)))
    print(f"{name}: {len(digests)} sources")


def main() -> None:
    """Write the files."""
    parser = command_line(__doc__)
    parser.add_argument("action", choices=("card", "training"))
    parser.add_argument("name", help="name of the bundled policy")
    parser.add_argument("file", nargs="?", type=Path, help="file that `mlgo-gym train` wrote beside the network")
    options = parser.parse_args()
    if options.action == "card":
        write_card(options.name)
    else:
        write_digests(options.name, options.file)


if __name__ == "__main__":
    main()
