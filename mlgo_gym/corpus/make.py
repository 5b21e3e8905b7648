"""Corpora from bitcode files and from other corpora, as LLVM's `make_corpus` and `combine_training_corpus` do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.description import (
    DESCRIPTION_FILE,
    CorpusReport,
    Description,
    read_description,
    write_description,
)
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import parse_bitcode
from mlgo_gym.storage.cache import write_atomically


def make_corpus(
    source: Path, output: Path, *, default_args: Sequence[str] = (), progress: Callable[[], object] = lambda: None
) -> CorpusReport:
    """Copy every `.bc` file below a folder, with its subfolders, and describe the copies as a corpus.

    Args:
        source: folder with bitcode.
        output: corpus folder; if it is `source`, nothing is copied.
        default_args: flags of every module, for the description's `global_command_override`.
        progress: called after each file.

    Raises:
        CorpusError: `source` is not a folder or contains no bitcode.
    """
    if not source.is_dir():
        raise CorpusError(f"{source}: expected a folder of .bc files; check --input_dir")
    report = CorpusReport()
    inside = output.resolve()
    in_place = inside == source.resolve()
    for path in sorted(source.rglob("*.bc")):
        if not path.is_file() or (not in_place and inside in path.resolve().parents):
            continue
        name = path.relative_to(source).as_posix().removesuffix(".bc")
        data = path.read_bytes()
        try:
            parse_bitcode(data, path)
        except CorpusError as error:
            report.skipped.append((name, str(error)))
        else:
            if not in_place:
                write_atomically(output / f"{name}.bc", data)
            report.modules.append(name)
        progress()
    if not report.modules:
        raise CorpusError(f"{source}: expected .bc files with LLVM bitcode, got none; check --input_dir")
    write_description(output, report.modules, global_command_override=default_args)
    return report


def combine_corpora(root: Path) -> list[str]:
    """Describe all corpora one level below a folder as one corpus without copying, and return its module names.

    Module names gain `SUBFOLDER/`, in the order of the folders' names. Other folders are ignored.

    Raises:
        CorpusError: there is no corpus, or two differ in more than their modules.
    """
    if not root.is_dir():
        raise CorpusError(f"{root}: expected a folder of corpora; check --root_dir")
    parts = [(path.parent.name, read_description(path.parent)) for path in sorted(root.glob(f"*/{DESCRIPTION_FILE}"))]
    if not parts:
        raise CorpusError(f"{root}: expected folders with {DESCRIPTION_FILE}, got none; check --root_dir")
    first_folder, first = parts[0]
    for folder, part in parts[1:]:
        ours, theirs = _settings(first), _settings(part)
        different = [key for key in {**theirs, **ours} if ours.get(key, ...) != theirs.get(key, ...)]
        if different:
            raise CorpusError(
                f"{root}: expected equal descriptions, got {first_folder} and {folder} that differ in "
                f"{', '.join(different)}; make them equal, or open them joined with a comma"
            )
    modules = [f"{folder}/{name}" for folder, part in parts for name in part.modules]
    write_description(root, modules, **_settings(first))
    return modules


def _settings(description: Description) -> dict[str, Any]:
    return {
        "has_thinlto": description.has_thinlto,
        "global_command_override": description.global_command_override,
        **description.extra,
    }
