"""Corpora from Parquet files, such as ComPile (arXiv 2309.15432)."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlgo_clang.files import open_untrusted
from mlgo_gym.cache import write_atomically
from mlgo_gym.corpus.flags import safe_name
from mlgo_gym.corpus.folder import CorpusReport, is_texts, write_description, write_metadata
from mlgo_gym.errors import CorpusError
from mlgo_gym.extras import library
from mlgo_gym.llvm.bitcode import parse_bitcode

CONTENT = "content"


def import_parquet(
    files: Sequence[Path], output: Path, *, progress: Callable[[], object] = lambda: None
) -> CorpusReport:
    """Write the bitcode in Parquet files as a corpus without recorded flags.

    Modules are named `LANGUAGE/DIGEST`, after the column `language` and the first 16 digits of their SHA-256. All other
    columns with text or numbers become metadata; a licence is also stored as `licence`.

    Args:
        files: Parquet files with bitcode in the column `content`.
        output: corpus folder.
        progress: called after each row.

    Raises:
        CorpusError: a file is not a Parquet file or has no bitcode, or no module was imported.
        MissingExtraError: pyarrow is not installed.
    """
    result = CorpusReport()
    seen: set[str] = set()
    for label, row in _rows(files):
        progress()
        if isinstance(row, Exception):
            result.skipped.append((label, f"its values cannot be read: {row}"))
            continue
        language = str(row.get("language") or "")
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
            result.skipped.append((label, str(error).removeprefix(f"{label}: ")))
            continue
        name = f"{safe_name(language).strip('.') or 'unknown'}/{digest[:16]}"
        write_atomically(output / f"{name}.bc", data)
        write_metadata(output, name, {**_metadata(row), "bitcode_sha256": digest, "source": facts.source_filename})
        result.modules.append(name)
    if not result.modules:
        first = f"; the first row was skipped because {result.skipped[0][1]}" if result.skipped else ""
        raise CorpusError(f"expected modules in {', '.join(map(str, files))}, got none{first}")
    write_description(output, result.modules)
    return result


def _rows(files: Sequence[Path]) -> Iterator[tuple[str, Mapping[str, Any] | Exception]]:
    arrow, parquet = (library(name, "importing Parquet files", "parquet") for name in ("pyarrow", "pyarrow.parquet"))
    for path in files:
        try:
            open_untrusted(path).close()
            with parquet.ParquetFile(path) as file:
                columns = file.schema_arrow.names
                if CONTENT not in columns:
                    raise CorpusError(f"{path}: expected a column {CONTENT!r} with bitcode, got {', '.join(columns)}")
                # One row at a time: a small file can claim that one large value is in every row.
                for number, batch in enumerate(file.iter_batches(batch_size=1)):
                    yield f"{path.name}:{number}", _row(batch)
        except (OSError, UnicodeDecodeError, arrow.ArrowException) as error:  # noqa: PERF203 - one iteration is a file
            raise CorpusError(f"{path}: expected a Parquet file: {error}; check the path") from error


def _row(batch: Any) -> Mapping[str, Any] | Exception:
    """Return the row of a batch, or the error: text that is not UTF-8, a time before year 1."""
    try:
        row: Mapping[str, Any] = batch.to_pylist()[0]
    except (ValueError, OverflowError) as error:
        return error
    return row


def _metadata(row: Mapping[str, Any]) -> dict[str, object]:
    metadata: dict[str, object] = {
        key: value
        for key, value in row.items()
        if key != CONTENT and (isinstance(value, str | int | float | bool) or is_texts(value))
    }
    licences = [metadata.get(key) for key in ("license_expression", "license", "licence")]
    licence = next((value for value in licences if isinstance(value, str) and value), None)
    return metadata if licence is None else {**metadata, "licence": licence}
