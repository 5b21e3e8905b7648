"""The sources of a dataset: unpacked, completed with what its build would write, and how they are compiled."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from mlgo_gym.corpus.amalgamation import split_amalgamation
from mlgo_gym.corpus.catalogue import Dataset
from mlgo_gym.corpus.fetch import SourceArchive, fetch_source
from mlgo_gym.corpus.unpack import unpack
from mlgo_gym.errors import CorpusError


def fetch_archives(dataset: Dataset) -> dict[str, SourceArchive]:
    """Return the source distributions of a dataset by the folder that each goes to; its own goes to `""`.

    Raises:
        CorpusError: one cannot be fetched; see `mlgo_gym.corpus.fetch.fetch_source`.
    """
    pins = {"": dataset.archive, **dataset.needs}
    return {path: fetch_source(pin.package, pin.version, pin.sha256 or None) for path, pin in pins.items()}


def unpack_sources(dataset: Dataset, archives: Mapping[str, SourceArchive], folder: Path) -> Path:
    """Unpack the archives of a dataset into a new folder, write what its entry adds, and return the top of its own.

    Raises:
        CorpusError: an archive is refused; see `mlgo_gym.corpus.unpack.unpack`. It is removed from the cache then.
    """
    source = _unpack(archives[""], folder).resolve()
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
    """Return the driver command line of each compile, without its first word; they run in the folder `source`.

    Raises:
        CorpusError: a pattern of the entry matches no file.
    """
    excluded = {path for pattern in dataset.exclude for path in _matches(dataset, source, pattern)}
    commands: dict[Path, list[str]] = {}
    for part in dataset.parts:
        options = [f"-I{source / folder}" for folder in part.include]
        for path in {path for pattern in part.sources for path in _matches(dataset, source, pattern)} - excluded:
            name = path.relative_to(source)
            output = Path(part.prefix) / name.with_suffix(".o")
            commands[part.prefix / name] = ["-c", str(name), "-o", str(output), *part.options, *options]
    return [commands[path] for path in sorted(commands)]


def _matches(dataset: Dataset, source: Path, pattern: str) -> list[Path]:
    found = [path for path in source.glob(pattern) if path.is_file()]
    if not found:
        raise CorpusError(
            f"{dataset.name}: no file of {dataset.archive.package} {dataset.archive.version} matches {pattern!r}"
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
