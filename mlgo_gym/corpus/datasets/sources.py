"""The sources of a dataset: unpacked, completed with generated files, and their compile commands."""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from mlgo_gym.corpus.datasets.catalogue import Dataset
from mlgo_gym.corpus.datasets.fetch import SourceArchive, fetch_source
from mlgo_gym.corpus.datasets.unpack import unpack
from mlgo_gym.errors import CorpusError

_MARK = re.compile(r"/\*{4} (start inlining|ended inlining|skipping file:) (\S+) \*{4}/\n?")


def fetch_archives(dataset: Dataset) -> dict[str, SourceArchive]:
    """Return the source distributions of a dataset by target folder, `""` for its own; raises as `fetch_source()`."""
    pins = {"": dataset.archive, **dataset.needs}
    return {path: fetch_source(pin.package, pin.version, pin.sha256 or None) for path, pin in pins.items()}


def unpack_sources(dataset: Dataset, archives: Mapping[str, SourceArchive], folder: Path) -> Path:
    """Unpack the archives of a dataset, write the files of its entry, and return the top folder of its own archive.

    A refused archive (see `unpack()`) is removed from the cache.
    """
    source = _unpack(archives[""], folder).resolve()
    if dataset.folder:
        root = folder.with_name(f"{folder.name}.root").resolve()
        (root / dataset.folder).parent.mkdir(parents=True)
        source = source.rename(root / dataset.folder).parents[len(Path(dataset.folder).parts) - 1]
    for path in dataset.needs:
        needed = folder.with_name(f"{folder.name}.needed")
        _unpack(archives[path], needed).rename(source / path)
        shutil.rmtree(needed, ignore_errors=True)
    for amalgamation, target in dataset.amalgamations.items():
        text = (source / amalgamation).read_text(encoding="utf-8")
        for path, content in split_amalgamation(text).items():
            _write(source / target / path, content)
    for path, content in dataset.files.items():
        _write(source / path, content)
    return source


def compile_commands(dataset: Dataset, source: Path) -> list[list[str]]:
    """Return the driver arguments of each compile in the folder `source`; raise `CorpusError` for an unused pattern."""
    excluded = {path for pattern in dataset.exclude for path in _matches(dataset, source, pattern)}
    commands: dict[Path, list[str]] = {}
    for part in dataset.parts:
        options = [f"-I{source / folder}" for folder in part.include]
        for path in {path for pattern in part.sources for path in _matches(dataset, source, pattern)} - excluded:
            name = path.relative_to(source)
            output = Path(part.prefix) / name.with_suffix(".o")
            commands[part.prefix / name] = ["-c", str(name), "-o", str(output), *part.options, *options]
    return [commands[path] for path in sorted(commands)]


def split_amalgamation(text: str) -> dict[str, str]:
    """Return the text by path of each file that zstd's `combine.py` merged into one; raise `CorpusError` without marks.

    The script writes `/**** start inlining PATH ****/` instead of an `#include`, `/**** ended inlining PATH ****/`
    after the file, and `/**** skipping file: PATH ****/` for a repeated one. PATH is relative to the including file.
    Text outside of all pairs is dropped.
    """
    files: dict[str, list[str]] = {}
    open_files: list[str] = []
    position = 0
    for mark in _MARK.finditer(text):
        if open_files:
            files[open_files[-1]].append(text[position : mark.start()])
        position = mark.end()
        kind, name = mark[1], mark[2]
        if kind == "ended inlining":
            if not open_files or not open_files[-1].endswith(name.rpartition("/")[2]):
                raise CorpusError(f"amalgamation: expected the end of {open_files[-1:]}, got that of {name}")
            open_files.pop()
            continue
        if open_files:
            files[open_files[-1]].append(f'#include "{name}"\n')
        if kind == "start inlining":
            parent = posixpath.dirname(open_files[-1]) if open_files else ""
            open_files.append(posixpath.normpath(posixpath.join(parent, name)))
            files[open_files[-1]] = []
    if open_files or not files:
        raise CorpusError(f"amalgamation: expected marks of its files, got {len(files)} files, {len(open_files)} open")
    return {path: "".join(parts) for path, parts in files.items()}


def _matches(dataset: Dataset, source: Path, pattern: str) -> list[Path]:
    found = [path for path in source.glob(pattern) if path.is_file()]
    if not found:
        raise CorpusError(
            f"{dataset.name}: expected a file of {dataset.archive.package} {dataset.archive.version} that matches "
            f"{pattern!r}, got none"
        )
    return found


def _unpack(archive: SourceArchive, folder: Path) -> Path:
    try:
        return unpack(archive.path, folder)
    except CorpusError:
        archive.path.unlink(missing_ok=True)
        raise


def _write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
