"""The object files of a build, from a compilation database, linker parameters, Bazel's actions or a folder."""

from __future__ import annotations

import os
import posixpath
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path, PurePath
from typing import Any

from mlgo_clang.driver_commands import named_output
from mlgo_clang.invocation import expand_response_files
from mlgo_gym.errors import CorpusError
from mlgo_gym.storage.json_text import parse_json

INPUT_TYPES = ("json", "params", "directory", "bazel_aquery")
IMPORTED_SUFFIX = ".3.import.bc"
"""Suffix of lld for bitcode saved after ThinLTO's imports."""

INDEX_SUFFIX = ".thinlto.bc"
"""Suffix of a ThinLTO index, of lld and in a corpus."""

_NO_OBJECT = frozenset({"-E", "-S", "-M", "-MM", "-fsyntax-only", "--analyze"})


@dataclass(frozen=True, slots=True)
class BuildObject:
    """An object file of a build, and the folder that relative paths in its flags start from.

    The name of its module is its path relative to the build. The path of a local ThinLTO build has no suffix.
    """

    name: str
    path: Path
    base: Path


@dataclass(slots=True)
class ObjectList:
    """The object files of a build in order, with unique names; and name and reason for each entry without one."""

    objects: list[BuildObject] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


def read_object_list(source: Path, input_type: str, base: Path | None = None) -> ObjectList:
    """Return the object files that an input names.

    Args:
        source: for `json` a `compile_commands.json`; for `params` a linker parameter file with one word per line; for
            `directory` a folder with `*.o`; for `bazel_aquery` the output of `bazel aquery --output=jsonproto`, whose
            last `CppLink` action counts.
        input_type: one of `INPUT_TYPES`.
        base: folder that relative paths of `params` and `bazel_aquery` start from; by default the working directory.

    Raises:
        CorpusError: the input cannot be read, or is of another type.
    """
    base = Path.cwd() if base is None else base.absolute()
    if input_type == "json":
        listed = from_compile_commands(_read_json(source), source.absolute().parent)
    elif input_type == "params":
        listed = from_linker_parameters(_read_parameters(source), base)
    elif input_type == "bazel_aquery":
        listed = from_bazel_aquery(_read_json(source), base)
    elif input_type == "directory":
        listed = from_directory(source)
    else:
        raise CorpusError(f"expected an input type of {', '.join(INPUT_TYPES)}, got {input_type!r}")
    listed.objects = _with_unique_names(listed.objects)
    return listed


def from_compile_commands(commands: Any, folder: Path = Path()) -> ObjectList:
    """Return the objects of a compilation database, whose entries have `arguments` or a `command` string.

    An object is the last `-o` of the command and its response files, else the `output` of the entry, else the stem of
    its `file` with `.o`. Relative directories start from `folder`, that of the database. An object outside of the
    entry's `directory` is named by its absolute path. Raises `CorpusError` without a list.
    """
    if not isinstance(commands, list):
        raise CorpusError(f"expected a JSON array of compile commands, got {commands!r:.80}; check --input_type")
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


def from_linker_parameters(parameters: Sequence[str], base: Path) -> ObjectList:
    """Return the `*.o` among the arguments of a link, except options and the word after `-o`.

    Parameter files `@FILE` among them are read, relative to `base`, with one word per line.
    """
    return _from_words(parameters, base, {}, ())


def _from_words(
    parameters: Sequence[str], base: Path, files: Mapping[str, Sequence[str]], outer: tuple[str, ...]
) -> ObjectList:
    listed = ObjectList()
    words = iter(parameters)
    for word in words:
        file = word.removeprefix("-Wl,")
        if word == "-o":
            next(words, None)
        elif file.startswith("@"):
            try:
                if file in outer:
                    raise CorpusError("it contains itself")
                inside = files.get(file[1:]) or _read_parameters(base / file[1:])
            except CorpusError:
                listed.skipped.append((file, "the parameter file cannot be read"))
            else:
                nested = _from_words(inside, base, files, (*outer, file))
                listed.objects += nested.objects
                listed.skipped += nested.skipped
        elif word.endswith(".o") and not word.startswith("-"):
            listed.objects.append(_build_object(word, base))
    return listed


def from_bazel_aquery(query: Any, base: Path) -> ObjectList:
    """Return the object files of the last `CppLink` action of a `bazel aquery`; raise `CorpusError` without one.

    Parameter files are those of `--include_param_files`, else they are read below `base`.
    """
    actions = query.get("actions") if isinstance(query, dict) else None
    actions = actions if isinstance(actions, list) else []
    links = [action for action in actions if isinstance(action, dict) and action.get("mnemonic") == "CppLink"]
    if not links:
        raise CorpusError(
            "expected a CppLink action in the output of `bazel aquery --output=jsonproto`, got none; query the linked "
            "target"
        )
    try:
        words = _texts(links[-1].get("arguments", []))
        files = {str(file["execPath"]): _texts(file["arguments"]) for file in links[-1].get("paramFiles", [])}
    except (KeyError, TypeError) as error:
        raise CorpusError(f"expected lists of arguments of a CppLink action, got {error}; query it again") from error
    return _from_words(words, base, files, ())


def _texts(words: Any) -> list[str]:
    if not isinstance(words, list):
        raise TypeError(str(words)[:80])
    return list(map(str, words))


def from_directory(folder: Path) -> ObjectList:
    """Return every `*.o` below a folder, sorted; raise `CorpusError` if it is not a folder."""
    return ObjectList([_build_object(name, folder) for name in _files_below(folder, ".o")])


def from_local_thinlto(folder: Path) -> ObjectList:
    """Return the modules of a local ThinLTO link by lld below a folder, sorted.

    Each has `NAME.3.import.bc` (from `-Wl,--save-temps=import`) and `NAME.thinlto.bc` (from
    `-Wl,--thinlto-emit-index-files`); modules with one of them are skipped.
    """
    bitcode = {name.removesuffix(IMPORTED_SUFFIX) for name in _files_below(folder, IMPORTED_SUFFIX)}
    indexes = {name.removesuffix(INDEX_SUFFIX) for name in _files_below(folder, INDEX_SUFFIX)}
    listed = ObjectList([_build_object(name, folder) for name in sorted(bitcode & indexes)])
    listed.skipped = [(name, f"its {INDEX_SUFFIX} is missing") for name in sorted(bitcode - indexes)]
    listed.skipped += [(name, f"its {IMPORTED_SUFFIX} is missing") for name in sorted(indexes - bitcode)]
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


def _files_below(folder: Path, suffix: str) -> list[str]:
    if not folder.is_dir():
        raise CorpusError(f"{folder}: expected a folder; check the path")
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob(f"*{suffix}") if path.is_file())


def _read_json(source: Path) -> Any:
    try:
        return parse_json(source.read_bytes())
    except (OSError, ValueError) as error:
        raise CorpusError(f"{source}: expected JSON: {error}; check --input and --input_type") from error


def _read_parameters(source: Path) -> list[str]:
    try:
        lines = os.fsdecode(source.read_bytes()).splitlines()
    except OSError as error:
        raise CorpusError(f"{source}: expected linker parameters: {error}; check --input") from error
    return [word for line in lines for word in _split(line.strip())]


def _split(line: str) -> list[str]:
    with suppress(ValueError):
        # Only quoted lines are shell syntax: an unquoted path may contain spaces.
        return shlex.split(line) if any(quote in line for quote in "\"'\\") else [line]
    return [line]
