"""Corpus folders: `corpus_description.json`, `NAME.bc`, `NAME.cmd` and `NAME.json`; modules are read on request.

On machines without their corpus, modules come from a file store, packed with all files that they need.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard

from mlgo_clang.files import read_untrusted
from mlgo_gym.cache import parse_json, write_atomically
from mlgo_gym.corpus.corpus import Corpus, Module, missing_bitcode
from mlgo_gym.corpus.flags import resolve_inputs, take_thinlto_index
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.scheduling import FileStore

DESCRIPTION_FILE = "corpus_description.json"
UNSPECIFIED_OVERRIDE = ("<UNSPECIFIED>",)
"""Placeholder that LLVM's extractor writes for the flags of a local ThinLTO build."""

_FACTS = "module.json"
_BITCODE = "module.bc"
_INDEX = "module.thinlto.bc"
_LINK_FACTS = "link.facts"
_PLAIN = "plain.bc"
_INPUT = "input-{}"


@dataclass(frozen=True, slots=True)
class Description:
    """Content of `corpus_description.json`.

    Attributes:
        modules: module names relative to the folder, without `.bc`, in the order of the file.
        has_thinlto: whether each module has a ThinLTO index `NAME.thinlto.bc`.
        global_command_override: flags for every module instead of `.cmd` files, or None.
        extra: every other key.
    """

    modules: tuple[str, ...]
    has_thinlto: bool = False
    global_command_override: tuple[str, ...] | None = None
    extra: dict[str, Any] = field(default_factory=dict, compare=False)


def format_counts(counts: Mapping[str, int]) -> str:
    """Return numbers by reason in one line, the largest first."""
    return ", ".join(f"{number} of {reason}" for reason, number in Counter(counts).most_common())


def read_description(folder: str | os.PathLike[str]) -> Description:
    """Return the content of `folder/corpus_description.json`.

    Raises `CorpusError` without the file that LLVM's mlgo-utils write, or if it names a module outside of the folder.
    """
    path = Path(folder) / DESCRIPTION_FILE
    try:
        content = read_json_object(path, "make the corpus again")
    except FileNotFoundError as error:
        raise CorpusError(f"{path}: expected this file in a corpus, got none; give the folder of a corpus") from error
    modules = content.pop("modules", None)
    if not is_texts(modules):
        raise CorpusError(f"{path}: expected a list of names in 'modules', got {modules!r:.80}; correct it")
    for name in modules:
        _check_name(path, name)
    override = content.pop("global_command_override", None)
    if override is not None and not is_texts(override):
        raise CorpusError(f"{path}: expected a list in 'global_command_override', got {override!r:.80}; correct it")
    return Description(
        modules=tuple(modules),
        has_thinlto=bool(content.pop("has_thinlto", False)),
        global_command_override=None if override is None else tuple(override),
        extra=content,
    )


def write_description(folder: str | os.PathLike[str], modules: Iterable[str], **extra: object) -> None:
    """Write `folder/corpus_description.json` atomically.

    `extra` are further keys about the whole corpus. Facts about one module belong in `write_metadata()`.
    """
    path = Path(folder) / DESCRIPTION_FILE
    names = list(modules)
    for name in names:
        _check_name(path, name)
    # The long list comes last, so that `head` shows the rest.
    content = {"has_thinlto": False, **extra, "modules": names}
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())


def read_command(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the flags of a `.cmd` file; raise `CorpusError` if it cannot be read or does not begin with `-cc1`."""
    try:
        data = read_untrusted(path)
    except OSError as error:
        raise CorpusError(f"{path}: the flags of the module cannot be read: {error}") from error
    return parse_command(data, path)


def parse_command(data: bytes, origin: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return NUL-terminated flags of a named file; raise `CorpusError` if the first one is not `-cc1`."""
    flags = _split(data)
    if flags[0] != "-cc1":
        raise CorpusError(
            f"{origin}: expected flags that begin with -cc1, got {flags[0][:80]!r}; record or extract the module "
            "again, or write its flags to global_command_override"
        )
    return flags


@lru_cache(maxsize=1024)
def _split(data: bytes) -> tuple[str, ...]:
    # Most modules of a corpus have equal flags, and share one object.
    return tuple(os.fsdecode(data.removesuffix(b"\0")).split("\0"))


def write_command(path: str | os.PathLike[str], flags: Sequence[str]) -> None:
    """Write flags as a `.cmd` file, each terminated by NUL; raise `CorpusError` if the first one is not `-cc1`."""
    if not flags or flags[0] != "-cc1":
        raise CorpusError(f"{path}: expected flags that begin with -cc1, got {list(flags[:1])}")
    if any("\0" in flag for flag in flags):
        raise CorpusError(f"{path}: expected flags without NUL bytes, got {list(flags)!r:.200}")
    write_atomically(Path(path), b"".join(os.fsencode(flag) + b"\0" for flag in flags))


def read_metadata(folder: str | os.PathLike[str], name: str) -> dict[str, object]:
    """Return the content of `NAME.json` (`source`, `source_sha256`, `project`, …); empty without the file."""
    try:
        return read_json_object(Path(folder) / f"{name}.json", "record the module again")
    except FileNotFoundError:
        return {}


def write_metadata(folder: str | os.PathLike[str], name: str, metadata: Mapping[str, object]) -> None:
    """Write facts about a module to `NAME.json` next to its bitcode."""
    text = json.dumps(dict(metadata), indent=2, sort_keys=True) + "\n"
    write_atomically(Path(folder) / f"{name}.json", text.encode())


def read_json_object(path: Path, remedy: str) -> dict[str, Any]:
    """Return an untrusted JSON object; raise `FileNotFoundError`, or `CorpusError` with `remedy` for anything else."""
    try:
        content = parse_json(read_untrusted(path))
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise CorpusError(f"{path}: expected a JSON object: {error}; {remedy}") from error
    if not isinstance(content, dict):
        raise CorpusError(f"{path}: expected a JSON object, got {type(content).__name__}; {remedy}")
    return content


def is_outside(name: str) -> bool:
    """Return whether a relative path of an untrusted file leads out of its folder."""
    return not name or name[0] == "/" or "\0" in name or (".." in name and ".." in PurePosixPath(name).parts)


def is_texts(value: object) -> TypeGuard[list[str]]:
    """Return whether decoded JSON is a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _check_name(path: Path, name: str) -> None:
    if is_outside(name):
        raise CorpusError(f"{path}: the module name {name!r} leads out of the corpus folder; correct or remove it")


class FolderModules:
    """The modules of a folder with `corpus_description.json`, or of any folder with `.bc` files.

    `flags` are those of modules without recorded ones, whose `Module.flags` is None otherwise. `names` are the modules
    to take without a description. `project` is that of the description, or None.
    """

    def __init__(self, folder: Path, *, flags: Sequence[str] | None = None, names: Sequence[str] | None = None) -> None:
        path = folder / DESCRIPTION_FILE
        if names is None and path.exists():
            description = read_description(folder)
        else:
            description = Description(tuple(sorted(_bitcode_files(folder)) if names is None else names))
        if description.global_command_override == UNSPECIFIED_OVERRIDE:
            raise CorpusError(
                f"{path}: expected flags in 'global_command_override', got {UNSPECIFIED_OVERRIDE[0]}; write the -cc1 "
                "flags of the local ThinLTO link there"
            )
        if not description.modules:
            raise CorpusError(f"{folder}: expected .bc files, got none; give the folder of a corpus")
        self._folder = folder
        self._fallback = None if flags is None else tuple(flags)
        # LLVM's make_corpus writes an empty override without flags.
        self._override = description.global_command_override or None
        self._thinlto = description.has_thinlto
        self.names: Sequence[str] = description.modules
        project = description.extra.get("project")
        self.project = project if isinstance(project, str) else None

    def missing_flags(self) -> tuple[int, int]:
        """Return how many of the first modules have no recorded flags, and how many were checked, at most 1000."""
        if self._override is not None or self._fallback is not None:
            return 0, 0
        names = self.names[:1000]
        return sum(not (self._folder / f"{name}.cmd").is_file() for name in names), len(names)

    def load(self, name: str) -> Module:
        """Return a module; raise `CorpusError` if its bitcode, flags or ThinLTO index is missing or broken."""
        bitcode = self.bitcode(name)
        if not bitcode.is_file():
            raise missing_bitcode(bitcode)
        flags, command = self._override, self._folder / f"{name}.cmd"
        if flags is None and command.is_file():
            flags = read_command(command)
        index = self._folder / f"{name}.thinlto.bc"
        needs_index = self._thinlto
        inputs: tuple[str, ...] = ()
        if flags is not None:
            flags, inputs = resolve_inputs(flags, self._folder)
            flags, needs_index = take_thinlto_index(flags)
        if needs_index and not index.is_file():
            raise CorpusError(f"{index}: expected the ThinLTO index of {name}, got no such file; extract it again")
        return Module(
            name=name,
            bitcode=bitcode,
            flags=self._fallback if flags is None else flags,
            thinlto_index=index if index.is_file() else None,
            inputs=inputs,
            trusted=flags is None and self._fallback is not None,
            metadata=read_metadata(self._folder, name),
        )

    def bitcode(self, name: str) -> Path:
        """Return the path of a module's bitcode, which may be missing."""
        return self._folder / f"{name}.bc"


def _bitcode_files(folder: Path) -> Iterator[str]:
    prefix = len(os.fspath(folder)) + 1
    for parent, _, files in os.walk(folder):  # much faster than pathlib in large folders
        for file in files:
            if file.endswith(".bc") and not file.endswith(".thinlto.bc"):
                yield f"{parent[prefix:]}/{file[:-3]}".lstrip("/")


def pack_module(corpus: Corpus, name: str) -> dict[str, bytes]:
    """Return the files of a module by name: bitcode, ThinLTO index, inputs of its flags, and the rest as JSON.

    The files of a broken module contain its error, which `StoredModules.load()` raises.
    """
    try:
        module = corpus.module(name)
        files = {_BITCODE: module.bitcode.read_bytes()}
        optional = {_INDEX: module.thinlto_index, _LINK_FACTS: module.link_facts, _PLAIN: module.plain}
        for file, optional_path in optional.items():
            if optional_path is not None:
                files[file] = optional_path.read_bytes()
        for number, path in enumerate(module.inputs):
            files[_INPUT.format(number)] = Path(path).read_bytes()
    except (CorpusError, OSError) as error:
        return {_FACTS: json.dumps({"error": str(error)}).encode()}
    facts = {field: getattr(module, field) for field in ("flags", "inputs", "trusted", "metadata")}
    facts["origin"] = corpus.origin(name)
    return {**files, _FACTS: json.dumps(facts).encode()}


@dataclass(frozen=True, slots=True)
class CorpusOutline:
    """Name, prefix in joined corpora, and module names of a corpus: all but its files, for other machines."""

    name: str
    prefix: str
    names: tuple[str, ...]

    @classmethod
    def of(cls, corpus: Corpus) -> "CorpusOutline":
        """Return the outline of a corpus."""
        return cls(corpus.name, corpus.prefix, tuple(corpus.names))

    def open(self, store: FileStore) -> Corpus:
        """Return the corpus whose modules arrive in a file store under their names."""
        modules = StoredModules(self.names, store)
        return Corpus(self.name, modules, names=self.names, origin=modules.origin, prefix=self.prefix)


class StoredModules:
    """Modules that `pack_module()` packed on another machine; their files may arrive in the store later."""

    def __init__(self, names: Sequence[str], store: FileStore) -> None:
        self.names = names
        self._store = store

    def load(self, name: str) -> Module:
        """Return a module; raise `CorpusError` if it has not arrived, or its files are broken on the other machine."""
        folder, facts = self._read(name)
        inputs = {path: str(folder / _INPUT.format(number)) for number, path in enumerate(facts["inputs"])}
        flags: list[str] | None = facts["flags"]
        for old, new in inputs.items():
            flags = [f"{flag.removesuffix(old)}{new}" if flag.endswith(old) else flag for flag in flags or ()]
        index, link_facts, plain = (
            path if path.is_file() else None for path in (folder / _INDEX, folder / _LINK_FACTS, folder / _PLAIN)
        )
        return Module(
            name=name,
            bitcode=folder / _BITCODE,
            flags=None if flags is None else tuple(flags),
            thinlto_index=index,
            inputs=tuple(inputs.values()),
            link_facts=link_facts,
            plain=plain,
            trusted=facts["trusted"],
            metadata=facts["metadata"],
        )

    def bitcode(self, name: str) -> Path:
        """Return the path of the bitcode; raise `CorpusError` as `load()` does."""
        return self._read(name)[0] / _BITCODE

    def origin(self, name: str) -> tuple[str, str]:
        """Return the project of a module and its name there; raise `CorpusError` as `load()` does."""
        project, local = self._read(name)[1]["origin"]
        return project, local

    def _read(self, name: str) -> tuple[Path, Mapping[str, Any]]:
        try:
            folder = self._store.folder(name)
        except MlgoError as error:
            raise CorpusError(str(error)) from error
        facts: dict[str, Any] = json.loads((folder / _FACTS).read_bytes())
        if "error" in facts:
            raise CorpusError(facts["error"])
        return folder, facts
