"""Which object files a build made: from a compilation database, linker parameters, Bazel's actions or a folder."""

from __future__ import annotations

import os
import posixpath
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from mlgo_gym.errors import CorpusError
from mlgo_gym.storage.json_text import parse_json

INPUT_TYPES = ("json", "params", "directory", "bazel_aquery")
"""The kinds of input that `read_object_list` reads."""

IMPORTED_SUFFIX = ".3.import.bc"
"""What lld appends to the name of bitcode that it saves after ThinLTO's imports."""

INDEX_SUFFIX = ".thinlto.bc"
"""What lld appends to the name of a ThinLTO index, and a corpus to that of a module."""


@dataclass(frozen=True, slots=True)
class BuildObject:
    """An object file of a build.

    Attributes:
        name: the name of its module: its path relative to the build, with `.o`.
        path: the object file; for a local ThinLTO build the path that suffixes are appended to.
        base: the folder that paths in its flags are relative to.
    """

    name: str
    path: Path
    base: Path


@dataclass(slots=True)
class ObjectList:
    """The object files of a build in order, and what was passed over.

    Attributes:
        objects: the object files; names are unique.
        skipped: for each entry that names no object file: which it is, and why.
    """

    objects: list[BuildObject] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


def read_object_list(source: Path, input_type: str, base: Path | None = None) -> ObjectList:
    """Return the object files that an input names.

    Args:
        source: for `json` a `compile_commands.json`; for `params` a linker's parameter file, a word on each line; for
            `directory` a folder, of which every `*.o` is taken; for `bazel_aquery` the output of `bazel aquery
            --output=jsonproto`, of which the last `CppLink` action is taken.
        input_type: one of these.
        base: what the paths of `params` and `bazel_aquery` are relative to; the working directory if None.

    Raises:
        CorpusError: the input cannot be read, or is of another kind.
    """
    base = Path.cwd() if base is None else base.absolute()
    if input_type == "json":
        commands = _read_json(source)
        if not isinstance(commands, list):
            raise CorpusError(f"{source}: a compilation database is a JSON array; choose another --input_type")
        found = from_compile_commands(commands)
    elif input_type == "params":
        found = from_linker_parameters(_read_parameters(source), base)
    elif input_type == "bazel_aquery":
        found = from_bazel_aquery(_read_json(source), base)
    elif input_type == "directory":
        found = from_directory(source)
    else:
        raise CorpusError(f"an input type is one of {', '.join(INPUT_TYPES)}, found {input_type!r}")
    found.objects = _with_unique_names(found.objects)
    return found


def from_compile_commands(commands: Sequence[Any]) -> ObjectList:
    """Return the outputs of the commands of a compilation database, which have `arguments` or a `command` string.

    An output that is not below the entry's `directory` gets its whole path as its name: a module never lies outside of
    its corpus.
    """
    found = ObjectList()
    for number, entry in enumerate(commands):
        label = f"entry {number}"
        try:
            label = str(entry.get("file", label))
            base = Path(entry["directory"])
            arguments = entry["arguments"] if "arguments" in entry else shlex.split(entry["command"])
            if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
                raise TypeError(f"its arguments are {str(arguments)[:80]}")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            found.skipped.append((label, f"it is no compile command: {error!r}"))
            continue
        output = _output_of(arguments)
        if output is None:
            found.skipped.append((label, "its command has no -o"))
        else:
            found.objects.append(_build_object(output, base))
    return found


def from_linker_parameters(parameters: Sequence[str], base: Path) -> ObjectList:
    """Return the `*.o` among the words of a link, but for the word after `-o` and words that begin with `-`."""
    found = ObjectList()
    words = iter(parameters)
    for word in words:
        if word == "-o":
            next(words, None)
        elif word.endswith(".o") and not word.startswith("-"):
            found.objects.append(_build_object(word, base))
    return found


def from_bazel_aquery(query: Any, base: Path) -> ObjectList:
    """Return the object files of the last `CppLink` action of a `bazel aquery`.

    Raises:
        CorpusError: it has no such action.
    """
    actions = query.get("actions") if isinstance(query, dict) else None
    each = actions if isinstance(actions, list) else ()
    links = [action for action in each if isinstance(action, dict) and action.get("mnemonic") == "CppLink"]
    if not links:
        raise CorpusError(
            "the output of `bazel aquery --output=jsonproto` has no CppLink action; query the linked target"
        )
    words = links[-1].get("arguments", [])
    if not isinstance(words, list):
        raise CorpusError(f"the arguments of a CppLink action are a list, found {str(words)[:80]}; query it again")
    return from_linker_parameters([str(word) for word in words], base)


def from_directory(folder: Path) -> ObjectList:
    """Return every `*.o` below a folder, sorted.

    Raises:
        CorpusError: it is no folder.
    """
    return ObjectList([_build_object(name, folder) for name in _files_below(folder, ".o")])


def from_local_thinlto(folder: Path) -> ObjectList:
    """Return the modules of a local ThinLTO link by lld below a folder, sorted.

    Each has `NAME.3.import.bc` (from `-Wl,--save-temps=import`) and `NAME.thinlto.bc` (from
    `-Wl,--thinlto-emit-index-files`); those with one of the two are skipped.

    Raises:
        CorpusError: it is no folder.
    """
    bitcode = {name.removesuffix(IMPORTED_SUFFIX) for name in _files_below(folder, IMPORTED_SUFFIX)}
    indexes = {name.removesuffix(INDEX_SUFFIX) for name in _files_below(folder, INDEX_SUFFIX)}
    found = ObjectList([_build_object(name, folder) for name in sorted(bitcode & indexes)])
    found.skipped = [(name, f"{name}{INDEX_SUFFIX} is missing") for name in sorted(bitcode - indexes)]
    found.skipped += [(name, f"{name}{IMPORTED_SUFFIX} is missing") for name in sorted(indexes - bitcode)]
    return found


def _output_of(arguments: Iterable[str]) -> str | None:
    words = iter(arguments)
    output = None
    for word in words:
        if word in ("-o", "--output"):
            output = next(words, None)
        elif word.startswith("--output="):
            output = word.removeprefix("--output=")
        elif word.startswith("-o") and not word.startswith(("-object", "-objc", "-opt-")):
            output = word[2:]
    return output or None


def _build_object(output: str, base: Path) -> BuildObject:
    path = base / output
    whole = posixpath.normpath(path.absolute().as_posix())
    name = os.path.relpath(whole, posixpath.normpath(base.absolute().as_posix()))
    if name.startswith("../"):
        name = whole.lstrip("/")
    return BuildObject(name, path, base)


def _with_unique_names(objects: Sequence[BuildObject]) -> list[BuildObject]:
    """Return each object once; those that share a name in different build folders get these before it."""
    unique = list({os.path.abspath(entry.path): entry for entry in reversed(objects)}.values())[::-1]  # noqa: PTH100 - links stay
    bases = defaultdict(list)
    for entry in unique:
        bases[entry.name].append(entry.base)
    renamed = []
    taken = {name for name, owners in bases.items() if len(owners) == 1}
    for entry in unique:
        name = entry.name
        if len(bases[name]) > 1:
            common = os.path.commonpath([base.absolute() for base in bases[name]])
            wanted = os.path.normpath(os.path.join(os.path.relpath(entry.base.absolute(), common), name))  # noqa: PTH118 - a text
            name = next(name for name in _numbered(wanted) if name not in taken)
            taken.add(name)
        renamed.append(replace(entry, name=name))
    return renamed


def _numbered(name: str) -> Iterator[str]:
    yield name
    for number in count(2):
        yield f"{name}-{number}"


def _files_below(folder: Path, suffix: str) -> list[str]:
    if not folder.is_dir():
        raise CorpusError(f"{folder}: a folder was wanted, and it is none; check the path")
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob(f"*{suffix}") if path.is_file())


def _read_json(source: Path) -> Any:
    try:
        return parse_json(source.read_bytes())
    except (OSError, ValueError) as error:
        raise CorpusError(f"{source}: JSON was wanted: {error}; check --input and --input_type") from error


def _read_parameters(source: Path) -> list[str]:
    try:
        lines = os.fsdecode(source.read_bytes()).splitlines()
    except OSError as error:
        raise CorpusError(f"{source}: linker parameters were wanted: {error}; check --input") from error
    return [word for line in lines for word in _words_of(line.strip())]


def _words_of(line: str) -> list[str]:
    # Only a quoted line is shell syntax: an unquoted path may hold spaces.
    try:
        return shlex.split(line) if any(quote in line for quote in "\"'\\") else [line]
    except ValueError:
        return [line]
