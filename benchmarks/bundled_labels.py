"""Adds folders of labels to a file of bundled labels; prints the number of labels.

    python -m benchmarks.bundled_labels mlgo_gym/training/bundled_labels/Os-with-calls.parquet 0=runs/labels-0

The number before each folder is its round of labelling.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.measuring import command_line
from mlgo_gym.corpus.training_digests import SHORT_DIGEST
from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.training.labels import FACTS, LABELS

arrow: Any = importlib.import_module("pyarrow")
parquet: Any = importlib.import_module("pyarrow.parquet")

_TYPES = {"answer": arrow.int8(), "bytes": arrow.int32(), "text": arrow.int32(), "decisions": arrow.int32()}
_LAST = {"round": arrow.int8(), "position": arrow.int32()}
_LEVEL = re.compile(r".*@O[^/]*/")


def table_of(folder: Path, number: int) -> Any:
    """Return the labels of a folder as an Arrow table with the columns of the files.

    Args:
        folder: output of `mlgo-gym label`.
        number: the round.

    Raises:
        MlgoError: the folder has no labels.
    """
    lines = sorted(LABELS.lines(folder), key=lambda line: str(line["module"]))
    parts = [parquet.read_table(LABELS.part(folder, line["module"])) for line in lines if line["labels"]]
    if not parts:
        raise MlgoError(f"expected labels in {folder}, got none; run `mlgo-gym label` first")
    table = arrow.concat_tables(parts)
    columns = {name: table[name] for name in table.column_names if name not in FACTS}
    columns |= {name: table[name].cast(kind) for name, kind in _TYPES.items()}
    columns |= {"round": arrow.array([number] * len(table), _LAST["round"])}
    columns |= {"position": table["position"].cast(_LAST["position"]), "dataset": table["project"]}
    # A module of several corpora has its corpus and level in front of its name.
    columns |= {"module": arrow.array([_LEVEL.sub("", name) for name in table["module"].to_pylist()])}
    columns |= {"digest": arrow.array([digest[:SHORT_DIGEST] for digest in table["digest"].to_pylist()])}
    return arrow.table(columns)


def main() -> None:
    """Write the file, and print its number of labels."""
    parser = command_line(__doc__)
    parser.add_argument("file", type=Path, help="the Parquet file; it is extended if it exists")
    parser.add_argument("folders", nargs="+", metavar="ROUND=FOLDER", help="a round and its folder of labels")
    options = parser.parse_args()
    tables = [parquet.read_table(options.file)] if options.file.exists() else []
    for word in options.folders:
        number, _, folder = word.partition("=")
        tables.append(table_of(Path(folder), int(number)))
    labels = arrow.concat_tables([table.select(tables[0].column_names) for table in tables])
    buffer = arrow.BufferOutputStream()
    parquet.write_table(labels, buffer, compression="zstd", compression_level=19)
    write_atomically(options.file, buffer.getvalue().to_pybytes())
    rounds = Counter(labels["round"].to_pylist())
    modules = len(set(zip(labels["dataset"].to_pylist(), labels["module"].to_pylist(), strict=True)))
    print(f"{options.file}: {len(labels):,} labels of {modules} modules, by round {dict(sorted(rounds.items()))}")


if __name__ == "__main__":
    main()
