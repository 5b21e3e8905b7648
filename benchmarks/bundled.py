"""Writes the files of a bundled policy or of bundled labels.

    python -m benchmarks.bundled card inline-oz                                     # results into NAME.json
    python -m benchmarks.bundled training inline-oz oz.safetensors.training.txt     # digests of the training sources
    python -m benchmarks.bundled labels mlgo_gym/training/bundled_labels/Os-with-calls.parquet 0=runs/labels-0

`card` writes the policy's rows of docs/results; `make numbers` writes the tables of `NAME.md`. `labels` adds folders of
`mlgo-gym label` to a file of labels; the number before each folder is its round.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring import command_line, read_json
from docs.site.measurements import card_facts
from docs.site.tables import CARDS
from mlgo_gym.corpus.training_digests import SHORT_DIGEST, read_digests, sidecar
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.model_files import NETWORKS, file_digest
from mlgo_gym.policies.network import Network
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.training.labels import FACTS, LABELS

DIGESTS_PER_LINE = 6


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


def labels_of(folder: Path, number: int) -> Any:
    """Return the labels of a folder as an Arrow table with the columns of the bundled files.

    Raises:
        MlgoError: the folder has no labels.
    """
    arrow, parquet = (importlib.import_module(f"pyarrow{part}") for part in ("", ".parquet"))
    lines = sorted(LABELS.lines(folder), key=lambda line: str(line["module"]))
    parts = [parquet.read_table(LABELS.part(folder, line["module"])) for line in lines if line["labels"]]
    if not parts:
        raise MlgoError(f"expected labels in {folder}, got none; run `mlgo-gym label` first")
    table = arrow.concat_tables(parts)
    types = {"answer": arrow.int8(), **dict.fromkeys(("bytes", "text", "decisions", "position"), arrow.int32())}
    columns = {name: table[name] for name in table.column_names if name not in FACTS}
    columns |= {name: table[name].cast(types[name]) for name in ("answer", "bytes", "text", "decisions")}
    columns |= {"round": arrow.array([number] * len(table), arrow.int8())}
    columns |= {"position": table["position"].cast(types["position"]), "dataset": table["project"]}
    # A module of several corpora has its corpus and level in front of its name.
    columns |= {"module": arrow.array([re.sub(r".*@O[^/]*/", "", name) for name in table["module"].to_pylist()])}
    columns |= {"digest": arrow.array([digest[:SHORT_DIGEST] for digest in table["digest"].to_pylist()])}
    return arrow.table(columns)


def write_labels(file: Path, rounds: Sequence[str]) -> None:
    """Add folders of labels to a file, and print its number of labels."""
    arrow, parquet = (importlib.import_module(f"pyarrow{part}") for part in ("", ".parquet"))
    tables = [parquet.read_table(file)] if file.exists() else []
    for word in rounds:
        number, _, folder = word.partition("=")
        tables.append(labels_of(Path(folder), int(number)))
    labels = arrow.concat_tables([table.select(tables[0].column_names) for table in tables])
    buffer = arrow.BufferOutputStream()
    parquet.write_table(labels, buffer, compression="zstd", compression_level=19)
    write_atomically(file, buffer.getvalue().to_pybytes())
    print(f"{file}: {len(labels):,} labels")


def main() -> None:
    """Write the files."""
    parser = command_line(__doc__)
    parser.add_argument("action", choices=("card", "training", "labels"))
    parser.add_argument("name", help="name of the bundled policy, or path of the file of labels")
    parser.add_argument("files", nargs="*", help="file that `mlgo-gym train` wrote beside the network; ROUND=FOLDER")
    options = parser.parse_args()
    if options.action == "card":
        write_card(options.name)
    elif options.action == "training":
        write_digests(options.name, Path(options.files[0]))
    else:
        write_labels(Path(options.name), options.files)


if __name__ == "__main__":
    main()
