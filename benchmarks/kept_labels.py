"""Put folders of labels into one of the files of docs/results/labels, which are small enough to be kept.

The round of each folder stands before it; a file that is there gets further rounds:

    python -m benchmarks.kept_labels docs/results/labels/Os-with-calls.parquet 0=runs/labels-0 1=runs/labels-1
"""

from __future__ import annotations

import argparse
import importlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.digests import SHORTEST
from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.training.label_store import FACTS, LABELS

arrow: Any = importlib.import_module("pyarrow")
parquet: Any = importlib.import_module("pyarrow.parquet")

_TYPES = {"answer": arrow.int8(), "bytes": arrow.int32(), "text": arrow.int32(), "decisions": arrow.int32()}
_AFTER = {"round": arrow.int8(), "position": arrow.int32()}
_LEVEL = re.compile(r".*@O[^/]*/")


def table_of(folder: Path, number: int) -> Any:
    """Return the labels of a folder as a table of Arrow, as the files have them.

    Args:
        folder: what `mlgo-gym label` has written.
        number: the round.

    Raises:
        MlgoError: it has no labels.
    """
    lines = sorted(LABELS.lines(folder), key=lambda line: str(line["module"]))
    parts = [parquet.read_table(LABELS.part(folder, line["module"])) for line in lines if line["labels"]]
    if not parts:
        raise MlgoError(f"{folder} was to have labels, and has none")
    table = arrow.concat_tables(parts)
    columns = {name: table[name] for name in table.column_names if name not in FACTS}
    columns |= {name: table[name].cast(kind) for name, kind in _TYPES.items()}
    columns |= {"round": arrow.array([number] * len(table), _AFTER["round"])}
    columns |= {"position": table["position"].cast(_AFTER["position"]), "dataset": table["project"]}
    # Behind the level, a module of several corpora is called what it is called in its own.
    columns |= {"module": arrow.array([_LEVEL.sub("", name) for name in table["module"].to_pylist()])}
    columns |= {"digest": arrow.array([digest[:SHORTEST] for digest in table["digest"].to_pylist()])}
    return arrow.table(columns)


def main() -> None:
    """Write the file, and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="the file")
    parser.add_argument("folders", nargs="+", metavar="ROUND=FOLDER", help="a folder of labels")
    options = parser.parse_args()
    tables = [parquet.read_table(options.file)] if options.file.exists() else []
    for given in options.folders:
        number, _, folder = given.partition("=")
        tables.append(table_of(Path(folder), int(number)))
    together = arrow.concat_tables([table.select(tables[0].column_names) for table in tables])
    buffer = arrow.BufferOutputStream()
    parquet.write_table(together, buffer, compression="zstd", compression_level=19)
    write_atomically(options.file, buffer.getvalue().to_pybytes())
    rounds = Counter(together["round"].to_pylist())
    modules = len(set(zip(together["dataset"].to_pylist(), together["module"].to_pylist(), strict=True)))
    print(f"{options.file}: {len(together):,} labels of {modules} modules, by round {dict(sorted(rounds.items()))}")


if __name__ == "__main__":
    main()
