"""A corpus from a collection of bitcode in Parquet files, such as ComPile (arXiv 2309.15432)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.description import write_description, write_metadata
from mlgo_gym.errors import CorpusError
from mlgo_gym.extras import library
from mlgo_gym.llvm.bitcode import parse_bitcode
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.storage.foreign_file import open_foreign

CONTENT = "content"
"""The column with the bitcode."""

_UNSAFE = re.compile(r"[^\w.+-]+")


@dataclass(slots=True)
class Import:
    """What became of an import.

    Attributes:
        modules: the names of the modules of the corpus, in the order of the rows.
        duplicates: how many rows have the bitcode of an earlier one.
        skipped: for each row that is no module: which it is, and why.
    """

    modules: list[str] = field(default_factory=list)
    duplicates: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)


def import_parquet(
    files: Sequence[Path],
    output: Path,
    *,
    languages: Sequence[str] = (),
    limit: int | None = None,
    progress: Callable[[], object] = lambda: None,
) -> Import:
    """Write the bitcode of Parquet files as a corpus.

    A module is called `LANGUAGE/DIGEST`, after the column `language` and the first 16 digits of its SHA-256, so that
    the same row always has the same name. All other columns that hold text or numbers become its metadata, and a
    licence among them is also found under `licence`. There are no recorded flags.

    Args:
        files: the Parquet files; the column `content` holds bitcode.
        output: the corpus folder.
        languages: take only rows with one of these in the column `language`, in any case; all if empty.
        limit: take no more modules than this.
        progress: called after each row.

    Raises:
        CorpusError: a file is no Parquet file or has no bitcode, or nothing was imported.
        MissingExtraError: pyarrow is not installed.
    """
    wanted = {language.lower() for language in languages}
    result = Import()
    seen: set[str] = set()
    for label, row in _rows(files):
        if limit is not None and len(result.modules) >= limit:
            break
        progress()
        if isinstance(row, Exception):
            result.skipped.append((label, f"its values cannot be read: {row}"))
            continue
        language = str(row.get("language") or "")
        if wanted and language.lower() not in wanted:
            continue
        content = row[CONTENT]
        data = content if isinstance(content, bytes) else b""
        digest = hashlib.sha256(data).hexdigest()
        if digest in seen:
            result.duplicates += 1
            continue
        seen.add(digest)
        try:
            facts = parse_bitcode(data, label)
        except CorpusError as error:
            result.skipped.append((label, str(error)))
            continue
        name = f"{_UNSAFE.sub('_', language).strip('.') or 'unknown'}/{digest[:16]}"
        write_atomically(output / f"{name}.bc", data)
        write_metadata(output, name, {**_metadata(row), "bitcode_sha256": digest, "source": facts.source_filename})
        result.modules.append(name)
    if not result.modules:
        first = f"; the first row was skipped because {result.skipped[0][1]}" if result.skipped else ""
        raise CorpusError(f"no module came out of {', '.join(map(str, files))}{first}")
    write_description(output, result.modules)
    return result


def _rows(files: Sequence[Path]) -> Iterator[tuple[str, Mapping[str, Any] | Exception]]:
    arrow, parquet = (library(name, "importing Parquet files", "parquet") for name in ("pyarrow", "pyarrow.parquet"))
    for path in files:
        yield from _rows_of(path, arrow, parquet)


def _rows_of(path: Path, arrow: Any, parquet: Any) -> Iterator[tuple[str, Mapping[str, Any] | Exception]]:
    try:
        open_foreign(path).close()
        with parquet.ParquetFile(path) as file:
            columns = file.schema_arrow.names
            if CONTENT not in columns:
                raise CorpusError(f"{path}: a column {CONTENT!r} with bitcode was wanted, found {', '.join(columns)}")
            # One by one: a file of some kilobytes can hold a large value once, and say that it is in every row.
            for number, batch in enumerate(file.iter_batches(batch_size=1)):
                yield f"{path.name}:{number}", _row(batch)
    except (OSError, UnicodeDecodeError, arrow.ArrowException) as error:
        raise CorpusError(f"{path}: a Parquet file was wanted: {error}; check the path") from error


def _row(batch: Any) -> Mapping[str, Any] | Exception:
    """Return the only row of a batch, or why Python has no such values: text that is no UTF-8, a time before year 1."""
    try:
        row: Mapping[str, Any] = batch.to_pylist()[0]
    except (ValueError, OverflowError) as error:
        return error
    return row


def _metadata(row: Mapping[str, Any]) -> dict[str, object]:
    metadata: dict[str, object] = {
        key: value
        for key, value in row.items()
        if key != CONTENT and (isinstance(value, str | int | float | bool) or _is_texts(value))
    }
    for key in ("license_expression", "license", "licence"):
        value = metadata.get(key)
        if isinstance(value, str) and value:
            metadata["licence"] = value
            break
    return metadata


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
