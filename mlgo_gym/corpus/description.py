"""The files of a corpus folder: `corpus_description.json`, `NAME.cmd` and `NAME.json`, read and written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from mlgo_gym.errors import CorpusError
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.storage.foreign_file import read_foreign
from mlgo_gym.storage.json_text import parse_json

DESCRIPTION_FILE = "corpus_description.json"
UNSPECIFIED_OVERRIDE = ("<UNSPECIFIED>",)
"""What LLVM's extractor writes for a local ThinLTO build: the user has to put the flags there."""


@dataclass(frozen=True, slots=True)
class Description:
    """What `corpus_description.json` says.

    Attributes:
        modules: module names relative to the folder, without `.bc`, in the order of the file.
        has_thinlto: whether ThinLTO index files `NAME.thinlto.bc` are present.
        global_command_override: flags for every module in place of `.cmd` files, or None.
        extra: every other key, as it was.
    """

    modules: tuple[str, ...]
    has_thinlto: bool = False
    global_command_override: tuple[str, ...] | None = None
    extra: dict[str, Any] = field(default_factory=dict, compare=False, hash=False)


def read_description(folder: str | os.PathLike[str]) -> Description:
    """Return what `folder/corpus_description.json` says.

    Raises:
        CorpusError: there is no such file, it is not what LLVM's mlgo-utils write, or a module name leads out of the
            folder.
    """
    path = Path(folder) / DESCRIPTION_FILE
    try:
        content = parse_json(read_foreign(path))
    except FileNotFoundError as error:
        raise CorpusError(f"{path}: a corpus has this file, and there is none; give the corpus folder") from error
    except (OSError, ValueError) as error:
        raise CorpusError(f"{path}: a JSON object was wanted: {error}; make the corpus again") from error
    if not isinstance(content, dict):
        raise CorpusError(f"{path}: a JSON object was wanted, found {type(content).__name__}; make the corpus again")
    modules = content.pop("modules", None)
    if not _is_strings(modules):
        raise CorpusError(f"{path}: 'modules' has to be a list of module names; make the corpus again")
    for name in modules:
        _check_name(path, name)
    override = content.pop("global_command_override", None)
    if override is not None and not _is_strings(override):
        raise CorpusError(f"{path}: 'global_command_override' has to be a list of flags; correct it")
    return Description(
        modules=tuple(modules),
        has_thinlto=bool(content.pop("has_thinlto", False)),
        global_command_override=None if override is None else tuple(override),
        extra=content,
    )


def write_description(
    folder: str | os.PathLike[str],
    modules: Iterable[str],
    *,
    has_thinlto: bool = False,
    global_command_override: Sequence[str] | None = None,
    **extra: object,
) -> Path:
    """Write `folder/corpus_description.json`, all of it or nothing, and return its path.

    Args:
        folder: the corpus folder; made if it does not exist.
        modules: module names relative to the folder, without `.bc`, in the order they are to have.
        has_thinlto: whether the modules have index files `NAME.thinlto.bc`.
        global_command_override: flags for every module, in place of `.cmd` files.
        extra: further keys that hold for the corpus as a whole. LLVM's `combine_training_corpus` refuses corpora in
            which these differ: what is true of one module belongs into `write_metadata`.

    Raises:
        CorpusError: a module name leads out of the folder.
    """
    path = Path(folder) / DESCRIPTION_FILE
    names = list(modules)
    for name in names:
        _check_name(path, name)
    content: dict[str, object] = {}
    if global_command_override is not None:
        content["global_command_override"] = list(global_command_override)
    # The long list comes last, so that the first lines of the file show the rest.
    content |= {"has_thinlto": has_thinlto, **extra, "modules": names}
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())
    return path


def read_command(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the flags of a `.cmd` file.

    Raises:
        CorpusError: the file cannot be read, or does not begin with `-cc1`.
    """
    try:
        data = read_foreign(path)
    except OSError as error:
        raise CorpusError(f"{path}: the flags of the module cannot be read: {error}") from error
    return parse_command(data, path)


def parse_command(data: bytes, origin: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the NUL-separated, NUL-terminated flags in `data`; `origin` is named in errors.

    Raises:
        CorpusError: the first flag is not `-cc1`.
    """
    flags = _split(data)
    if flags[0] != "-cc1":
        raise CorpusError(
            f"{origin}: a command has to begin with -cc1, found {flags[0][:80]!r}; record or extract the module again, "
            "or give its flags in global_command_override"
        )
    return flags


@lru_cache(maxsize=1024)
def _split(data: bytes) -> tuple[str, ...]:
    """Return the flags, the same object for most modules of a corpus: they have the same."""
    return tuple(os.fsdecode(data.removesuffix(b"\0")).split("\0"))


def write_command(path: str | os.PathLike[str], flags: Sequence[str]) -> Path:
    """Write flags as a `.cmd` file, each ended by NUL, and return its path.

    Raises:
        CorpusError: the first flag is not `-cc1`, or a flag holds NUL.
    """
    if not flags or flags[0] != "-cc1":
        raise CorpusError(f"{path}: a command has to begin with -cc1, found {list(flags[:1])}")
    if any("\0" in flag for flag in flags):
        raise CorpusError(f"{path}: a flag holds the NUL byte that separates flags")
    write_atomically(Path(path), b"".join(os.fsencode(flag) + b"\0" for flag in flags))
    return Path(path)


def read_metadata(folder: str | os.PathLike[str], name: str) -> dict[str, object]:
    """Return what `NAME.json` tells about a module: `source`, `source_sha256`, `project`, …; empty without a file.

    Raises:
        CorpusError: the file is not a JSON object.
    """
    path = Path(folder) / f"{name}.json"
    try:
        content = parse_json(read_foreign(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CorpusError(f"{path}: a JSON object was wanted: {error}; record the module again") from error
    if not isinstance(content, dict):
        raise CorpusError(f"{path}: a JSON object was wanted, found {type(content).__name__}; record the module again")
    return content


def write_metadata(folder: str | os.PathLike[str], name: str, metadata: Mapping[str, object]) -> Path:
    """Write what is known about a module beside its bitcode, as `NAME.json`, and return the path."""
    path = Path(folder) / f"{name}.json"
    write_atomically(path, (json.dumps(dict(metadata), indent=2, sort_keys=True) + "\n").encode())
    return path


def _is_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _check_name(path: Path, name: str) -> None:
    if not name or name[0] == "/" or "\0" in name or (".." in name and ".." in PurePosixPath(name).parts):
        raise CorpusError(f"{path}: the module name {name!r} leads out of the corpus folder; correct or remove it")
