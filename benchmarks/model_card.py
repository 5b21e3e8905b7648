"""Writes the results and the training digests of a bundled policy into the files beside its network.

    python -m benchmarks.model_card inline-oz --results
    python -m benchmarks.model_card inline-oz --training oz.safetensors.training.txt

`--results` writes the policy's row of docs/results/benchmark.json to `test` of `NAME.json`; `make numbers` writes the
tables of `NAME.md`. `--training` writes the digests of the training sources in a shorter form.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.measuring import command_line
from docs.site.results_tables import card_facts
from mlgo_gym.corpus.training_digests import SHORT_DIGEST, read_digests, sidecar
from mlgo_gym.policies.model_files import NETWORKS, file_digest
from mlgo_gym.policies.network import Network
from mlgo_gym.storage.cache import write_atomically

DIGESTS_PER_LINE = 6


def write_results(file: Path, name: str) -> None:
    """Write the results into the card of a network."""
    path = file.with_suffix(".json")
    card = json.loads(path.read_text()) if path.exists() else {"name": name}
    features = len(Network.load(file).features)
    card |= {"sha256": file_digest(file), "features": features, "test": card_facts(name)}
    write_atomically(path, (json.dumps(card, indent=2, ensure_ascii=False) + "\n").encode())


def write_digests(file: Path, name: str, training: Path) -> None:
    """Write the digests of the training sources."""
    digests = sorted({digest[:SHORT_DIGEST] for digest in read_digests(training)})
    lines = [" ".join(digests[at : at + DIGESTS_PER_LINE]) for at in range(0, len(digests), DIGESTS_PER_LINE)]
    heading = f"# SHA-256, {SHORT_DIGEST} digits of each, of the {len(digests)} sources that {name} was trained on"
    sidecar(file).write_text("".join(f"{line}\n" for line in (heading, *lines)))
    print(f"{name}: {len(digests)} sources")


def main() -> None:
    """Write the files."""
    parser = command_line(__doc__)
    parser.add_argument("name", help="name of the bundled policy")
    parser.add_argument("--results", action="store_true", help="write the results")
    parser.add_argument("--training", type=Path, help="file that `mlgo-gym train` wrote beside the network")
    options = parser.parse_args()
    file = NETWORKS / f"{options.name}.safetensors"
    if options.results:
        write_results(file, options.name)
    if options.training is not None:
        write_digests(file, options.name, options.training)


if __name__ == "__main__":
    main()
