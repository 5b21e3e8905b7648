"""The object files of a build, from a compilation database or a folder."""

from __future__ import annotations

import os
import posixpath
import shlex
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path, PurePath
from typing import Any

from mlgo_clang.driver_commands import named_output
from mlgo_clang.invocation import expand_response_files
from mlgo_gym.errors import CorpusError
from mlgo_gym.storage.json_text import parse_json

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
            if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
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
    absolute = posixpath.normpath(path.absolute().as_posix())
    name = os.path.relpath(absolute, posixpath.normpath(base.absolute().as_posix()))
    if name.startswith("../"):
        name = absolute.lstrip("/")
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
