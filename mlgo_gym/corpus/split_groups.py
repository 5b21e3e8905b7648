"""Modules that a split keeps together: those of one source, and those with the same content."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.module_source import Modules
from mlgo_gym.errors import CorpusError
from mlgo_gym.storage.cache import JsonCache, key_of

Facts = tuple[str, ...]
"""Source, source text and bitcode of a module; modules that share one belong to one group."""

MIN_CACHED_MODULES = 1000
"""Size from which the facts of a corpus are cached on disk; smaller ones are read as fast."""

_cache = JsonCache("split-facts")


def first_of_groups(modules: Iterable[tuple[str, Facts]]) -> Mapping[str, str]:
    """Return the alphabetically first name of each name's group: the connected names that share a fact."""
    owners: dict[str, list[str]] = defaultdict(list)
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while parents[name] != name:
            parents[name] = parents[parents[name]]
            name = parents[name]
        return name

    for name, facts in modules:
        parents[name] = name
        for fact in facts:
            owners[fact].append(name)
    for group in owners.values():
        for other in group[1:]:
            one, two = sorted((root(group[0]), root(other)))
            parents[two] = one
    return {name: root(name) for name in parents}


def read_facts(names: Iterable[str], modules: Modules, corpus: str) -> Mapping[str, Facts]:
    """Return the facts of modules by name; empty for a module that cannot be read.

    `corpus` identifies the corpus in the cache, such as its path.
    """
    ordered = list(names)
    if len(ordered) < MIN_CACHED_MODULES:
        return {name: _facts(modules, name) for name in ordered}
    key = key_of(corpus, len(ordered), ordered[0], ordered[-1])
    cached = _cache.get(key) or {}
    current: dict[str, Facts] = {}
    found: dict[str, Facts] = {}
    for name in ordered:
        stamp = _stamp_of(*modules.files(name))
        known = cached.get(stamp) if stamp is not None else None
        found[name] = tuple(known) if known else _facts(modules, name)
        if stamp is not None and found[name]:
            current[stamp] = found[name]
    if current.keys() != cached.keys():
        _cache.put(key, dict(current))
    return found


def _stamp_of(*paths: Path) -> str | None:
    """Return a text that changes with files: path, inode, size and times; None without the first file.

    The change time cannot be set by programs, so a copy with an old date differs.
    """
    parts = [str(paths[0])]
    for number, path in enumerate(paths):
        try:
            status = path.stat()
        except OSError:
            if number == 0:
                return None
            continue
        parts.append(f"{number} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}")
    return " ".join(parts)


def _facts(modules: Modules, name: str) -> Facts:
    try:
        return _facts_of(modules.load(name))
    except (CorpusError, OSError):
        return ()  # opening the module raises the error


def _facts_of(module: Module) -> Facts:
    source, text, bitcode = (module.metadata.get(key) for key in ("source", "source_sha256", "bitcode_sha256"))
    facts = [f"source {source}"] if isinstance(source, str) and source and text else []
    facts += [f"text {text}"] if isinstance(text, str) else []
    return (*facts, f"bitcode {bitcode if isinstance(bitcode, str) else module.digest()}")
