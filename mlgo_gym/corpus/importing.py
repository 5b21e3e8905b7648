"""Corpora from the object files of a finished build, and from Parquet files, such as ComPile (arXiv 2309.15432).

Clang embeds bitcode and flags in objects with `-Xclang -fembed-bitcode=all`, or for distributed ThinLTO with
`-mllvm -lto-embed-bitcode=post-merge-pre-opt`. Inputs, flags and results are those of LLVM's `extract_ir`.
"""

import hashlib
import os
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path, PurePath
from typing import Any

from mlgo_clang.command_lines import expand_response_files, named_output
from mlgo_clang.files import open_untrusted, read_untrusted
from mlgo_gym.cache import parse_json, write_atomically
from mlgo_gym.corpus.compilation import without_embedding
from mlgo_gym.corpus.flags import check_arguments, safe_name, take_thinlto_index
from mlgo_gym.corpus.folder import (
    CorpusReport,
    format_counts,
    is_texts,
    parse_command,
    write_description,
    write_metadata,
)
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.extras import library
from mlgo_gym.llvm.bitcode import parse_bitcode
from mlgo_gym.llvm.object_file import read_elf

_THINLTO_INDEX = b"-fthinlto-index="
_NO_OBJECT = frozenset({"-E", "-S", "-M", "-MM", "-fsyntax-only", "--analyze"})


@dataclass(frozen=True, slots=True)
class BuildObject:
    """An object file of a build, and the folder that relative paths in its flags start from.

    The name of its module is its path relative to the build.
    """

    name: str
    path: Path
    base: Path


@dataclass(slots=True)
class ObjectList:
    """The object files of a build in order, with unique names; and name and reason for each entry without one."""

    objects: list[BuildObject] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


def read_object_list(source: Path) -> ObjectList:
    """Return the object files that a `compile_commands.json` names, or the `*.o` below a folder.

    Raises `CorpusError` if it cannot be read, or is no compilation database.
    """
    if source.is_dir():
        names = (path.relative_to(source).as_posix() for path in source.rglob("*.o") if path.is_file())
        return ObjectList([_build_object(name, source) for name in sorted(names)])
    try:
        commands = parse_json(source.read_bytes())
    except (OSError, ValueError) as error:
        raise CorpusError(f"{source}: expected a folder or a compilation database: {error}; check --input") from error
    listed = from_compile_commands(commands, source.absolute().parent)
    listed.objects = _with_unique_names(listed.objects)
    return listed


def from_compile_commands(commands: Any, folder: Path = Path()) -> ObjectList:
    """Return the objects of a compilation database, whose entries have `arguments` or a `command` string.

    An object is the last `-o` of the command and its response files, else the `output` of the entry, else the stem of
    its `file` with `.o`. Relative directories start from `folder`, that of the database. An object outside of the
    entry's `directory` is named by its absolute path. Raises `CorpusError` without a list.
    """
    if not isinstance(commands, list):
        raise CorpusError(f"expected a JSON array of compile commands, got {commands!r:.80}; check --input")
    listed = ObjectList()
    for number, entry in enumerate(commands):
        label = f"entry {number}"
        try:
            label = str(entry.get("file", label))
            base = folder / entry["directory"]
            arguments = entry["arguments"] if "arguments" in entry else shlex.split(entry["command"])
            if not is_texts(arguments):
                raise TypeError(f"arguments {str(arguments)[:80]}")
            words = expand_response_files(arguments, str(base))
            output = (named_output(words) or (0, ""))[1] or entry.get("output")
            unread = [word for word in words if word.startswith("@")]
            other = [word for word in words if word in _NO_OBJECT]
            if other or (unread and not output):
                reason = f"its command writes no object: {other[0]}" if other else "its response file cannot be read"
                listed.skipped.append((label, reason))
            else:
                listed.objects.append(_build_object(output or f"{PurePath(entry['file']).stem}.o", base))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            listed.skipped.append((label, f"expected a compile command: {error!r}"))
    return listed


def _build_object(output: str, base: Path) -> BuildObject:
    path = base / output
    name = os.path.relpath(path, base)
    if name.startswith("../"):
        name = os.path.normpath(path.absolute()).lstrip("/")
    return BuildObject(name, path, base)


def _with_unique_names(objects: Sequence[BuildObject]) -> list[BuildObject]:
    """Return each object once; objects with equal names in different folders are prefixed with their folders."""
    unique = list({os.path.abspath(entry.path): entry for entry in reversed(objects)}.values())[::-1]  # noqa: PTH100 - links stay
    bases = defaultdict(list)
    for entry in unique:
        bases[entry.name].append(entry.base.absolute())
    used = {name for name, owners in bases.items() if len(owners) == 1}
    named = []
    for entry in unique:
        name = entry.name
        if len(bases[name]) > 1:
            common = os.path.commonpath(bases[name])
            prefixed = os.path.normpath(os.path.join(os.path.relpath(entry.base.absolute(), common), name))  # noqa: PTH118 - a text
            name = next(new for new in chain([prefixed], (f"{prefixed}-{n}" for n in count(2))) if new not in used)
            used.add(name)
        named.append(replace(entry, name=name))
    return named


def extract_corpus(
    listed: ObjectList, output: Path, *, trust_flags: bool = False, progress: Callable[[], object] = lambda: None
) -> CorpusReport:
    """Write a corpus of the object files of a build.

    Each file is written atomically, and the description last. An interrupted call can be repeated: unchanged files
    stay. The index of a distributed ThinLTO build, which the flags of a module name, is copied.

    Args:
        listed: object files.
        output: corpus folder.
        trust_flags: whether to take modules whatever their flags; else those with refused flags are skipped.
        progress: called after each object.

    Raises:
        CorpusError: no module was extracted.
    """
    report = CorpusReport(skipped=list(listed.skipped))

    def extract(entry: BuildObject) -> str | None:
        try:
            _extract(entry, output, trust_flags=trust_flags)
        except OSError as error:
            return error.strerror or str(error)
        except CorpusError as error:
            return str(error).removeprefix(f"{entry.path}: ")
        finally:
            progress()
        return None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for entry, result in zip(listed.objects, pool.map(extract, listed.objects), strict=True):
                if result is None:
                    report.modules.append(entry.name)
                else:
                    report.skipped.append((entry.name, result))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if not report.modules:
        reasons = f"; skipped: {format_counts(report.reasons)}" if report.skipped else ""
        raise CorpusError(f"expected modules in {len(listed.objects)} objects, got none{reasons}")
    has_thinlto = any((output / f"{name}.thinlto.bc").exists() for name in report.modules)
    write_description(output, report.modules, has_thinlto=has_thinlto)
    return report


def _extract(entry: BuildObject, output: Path, *, trust_flags: bool) -> None:
    """Write the module of an object, with the time of the object."""
    command, bitcode = read_elf_sections(entry.path, (".llvmcmd", ".llvmbc"))
    flags = parse_command(command, entry.path)
    if flags.count("-cc1") > 1:
        raise CorpusError(
            f"{entry.path}: expected one module, got {flags.count('-cc1')}; extract the objects it was linked from"
        )
    plain, has_index = take_thinlto_index(flags)
    if not trust_flags:
        check_arguments(without_embedding(plain), str(entry.path))
    if not bitcode:
        raise CorpusError(
            f"{entry.path}: expected bitcode, got an empty section; build with -Xclang -fembed-bitcode=all"
        )
    index = output / f"{entry.name}.thinlto.bc"
    if has_index:
        named = [flag for flag in command.split(b"\0") if flag.startswith(_THINLTO_INDEX)]
        try:
            data = read_untrusted(entry.base / os.fsdecode(named[-1].removeprefix(_THINLTO_INDEX)))
        except OSError as error:
            raise CorpusError(f"{entry.path}: its ThinLTO index is missing: {error}; build it again") from error
        _write(index, data)
    else:
        index.unlink(missing_ok=True)
    _write(output / f"{entry.name}.cmd", command)
    if _write(output / f"{entry.name}.bc", bitcode):
        modified = entry.path.stat().st_mtime_ns
        os.utime(output / f"{entry.name}.bc", ns=(modified, modified))


def _write(target: Path, data: bytes) -> bool:
    """Write a file and return True, or return False if it has that content already."""
    if target.is_file() and target.stat().st_size == len(data) and target.read_bytes() == data:
        return False
    write_atomically(target, data)
    return True


def read_elf_sections(path: Path, names: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the bytes of each named section of an ELF file; raise `CorpusError` for a missing or damaged one."""
    try:
        sections = read_elf(read_untrusted(path)).named_sections()
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror or error}; build it again") from error
    except MlgoError as error:
        raise CorpusError(
            f"{path}: expected a complete ELF object: {error}; LLVM's extract_ir reads other formats"
        ) from error
    missing = next((name for name in names if name not in sections), None)
    if missing is not None:
        raise CorpusError(
            f"{path}: expected a section {missing}, got none; build with -Xclang -fembed-bitcode=all (assembly has "
            "none)"
        )
    return tuple(bytes(sections[name]) for name in names)


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
