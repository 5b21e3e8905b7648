"""Modules, each with its files and flags; and corpora of them, which can be filtered, split, sampled and joined."""

from __future__ import annotations

import fnmatch
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Protocol, overload

from mlgo_gym.cache import cache_directory, sha256_of
from mlgo_gym.corpus.parts import HELD_OUT, PARTS, Part, is_project_part
from mlgo_gym.errors import CorpusError, did_you_mean

MAX_MODULE_BYTES = 1 << 31


@dataclass(frozen=True, slots=True)
class Module:
    """One unit of compilation.

    Attributes:
        name: name without `.bc`, unique in its corpus; may contain slashes.
        bitcode: bitcode file, recorded before optimisation.
        flags: recorded `-cc1` flags (first `-cc1`; no `-o`, `-x` or input); or driver flags; or None if not recorded.
        thinlto_index: ThinLTO summary index `NAME.thinlto.bc` of a distributed ThinLTO build.
        inputs: files of the corpus that the flags make clang read, such as profiles.
        link_facts, plain: in the link view, its program's link facts, and the bitcode before the link.
        trusted: whether the flags come from the user and are run unchecked; others must be allowed, see SECURITY.md.
        metadata: further facts by name: `source`, `source_sha256`, `language`, `optimize`, `project`, ….
    """

    name: str
    bitcode: Path
    flags: tuple[str, ...] | None = None
    thinlto_index: Path | None = None
    inputs: tuple[str, ...] = ()
    link_facts: Path | None = None
    plain: Path | None = None
    trusted: bool = False
    metadata: dict[str, object] = field(default_factory=dict, compare=False, hash=False)

    def digest(self) -> str:
        """Return the SHA-256 of the bitcode in hexadecimal, cached per version of the file."""
        try:
            status = self.bitcode.stat()
        except FileNotFoundError as error:
            raise missing_bitcode(self.bitcode) from error
        if status.st_size > MAX_MODULE_BYTES:
            raise CorpusError(
                f"{self.bitcode}: expected a module of at most {MAX_MODULE_BYTES:,} bytes, got {status.st_size:,}; "
                "remove it from the corpus"
            )
        digest = _digest(self.bitcode, status.st_mtime_ns, status.st_size)
        recorded = self.metadata.get("bitcode_sha256", digest)
        if recorded != digest and self.bitcode.is_relative_to(cache_directory()):
            # Elsewhere users may change a module, and `mlgo-gym corpus verify` compares.
            raise CorpusError(
                f"{self.bitcode}: expected the bitcode that was recorded, got {status.st_size:,} other bytes; remove "
                "the folder of the corpus from the cache, and open the corpus again"
            )
        return digest

    def contents(self) -> list[str]:
        """Return the SHA-256 of each file that shapes a compile: bitcode, ThinLTO index, link facts, and inputs."""
        files = [*filter(None, (self.thinlto_index, self.link_facts)), *map(Path, self.inputs)]
        statuses = [(file, file.stat()) for file in files if file.is_file()]  # else clang prints the error
        return [self.digest(), *(_digest(file, status.st_mtime_ns, status.st_size) for file, status in statuses)]

    def source_digest(self) -> str:
        """Return the SHA-256 of the source in hexadecimal if it is recorded, else that of the bitcode."""
        source = self.metadata.get("source_sha256")
        return source if isinstance(source, str) else self.digest()


def missing_bitcode(bitcode: Path) -> CorpusError:
    """Return the error for a module whose bitcode was deleted."""
    return CorpusError(
        f"{bitcode}: expected the bitcode of a module, got no such file; record or extract the corpus again (for a "
        "dataset or builtin: open it again)"
    )


@lru_cache(maxsize=65536)
def _digest(path: Path, _mtime_ns: int, _size: int) -> str:
    return sha256_of(path)


class Modules(Protocol):
    """Modules by name, each created on request."""

    @property
    def names(self) -> Sequence[str]:
        """Module names in order."""

    def load(self, name: str) -> Module:
        """Return a module; raise `CorpusError` if its files are missing or broken."""

    def bitcode(self, name: str) -> Path:
        """Return the path of a module's bitcode, which may be missing."""


class Corpus:
    """A sequence of modules, each created on request.

    Args:
        name: name in messages.
        modules: source of the modules.
        path: folder or file that it was opened from.
        names: unique names of the modules to take, in order; by default all.
        origin: project of all modules, or a function that returns the project of a module and its name there. By
            default the project is the first part of a name with slashes, else the name of the corpus.
        prefix: prefix of its module names in a joined corpus; by default its name.

    Attributes:
        specification: text with which `open_corpus()` opened it; None after a change of modules or flags.
    """

    def __init__(
        self,
        name: str,
        modules: Modules,
        *,
        path: Path | None = None,
        names: Sequence[str] | None = None,
        origin: str | Callable[[str], tuple[str, str]] | None = None,
        prefix: str | None = None,
    ) -> None:
        self.name = name
        self.prefix = name if prefix is None else prefix
        self.path = path
        self.names: Sequence[str] = modules.names if names is None else names
        self._modules = modules
        self._origin = origin
        self._changes: tuple[Callable[[Module], Module], ...] = ()
        self.specification: str | None = None

    def __repr__(self) -> str:
        return f"Corpus({self.name!r}, {len(self)} modules)"

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Module]:
        return map(self._load, self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    @overload
    def __getitem__(self, index: int) -> Module: ...

    @overload
    def __getitem__(self, index: slice) -> Corpus: ...

    def __getitem__(self, index: int | slice) -> Module | Corpus:
        if isinstance(index, slice):
            return self._select([self.names[position] for position in range(*index.indices(len(self)))])
        return self._load(self.names[index])

    def module(self, name: str) -> Module:
        """Return the module of that name; raise `CorpusError` if there is none, or its files are missing or broken."""
        return self[self.position(name)]

    def position(self, name: str) -> int:
        """Return the index of a module name in `names`; raise `CorpusError` if there is no such module."""
        if name not in self._positions:
            close = get_close_matches(name, self.names[:20_000], n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(close)}?" if close else "`mlgo-gym corpus info` lists its modules"
            raise CorpusError(f"the corpus {self.name} has no module {name!r}; {hint}")
        return self._positions[name]

    def size(self, name: str) -> int:
        """Return the bitcode size of the named module in bytes; raise `CorpusError` without bitcode."""
        bitcode = self._modules.bitcode(name)
        try:
            return bitcode.stat().st_size
        except OSError as error:
            raise missing_bitcode(bitcode) from error

    def project(self, name: str) -> str:
        """Return the project of the named module."""
        return self.origin(name)[0]

    def origin(self, name: str) -> tuple[str, str]:
        """Return the project of a module and its name there, the same alone and in a joined corpus."""
        if isinstance(self._origin, str):
            return self._origin, name
        if self._origin is not None:
            return self._origin(name)
        first, slash, _ = name.partition("/")
        return (first if slash else self.name), name

    def filter(
        self,
        *,
        names: str | Iterable[str] | None = None,
        bytes: tuple[int, int | None] | None = None,  # noqa: A002 - the unit
        where: Callable[[Module], bool] | None = None,
    ) -> Corpus:
        """Return the modules that satisfy every given condition, in the same order.

        Args:
            names: glob, or globs of which one must match the whole name; `*` also matches slashes.
            bytes: minimum and maximum bitcode size in bytes; a maximum of None is no limit.
            where: any condition on the module.
        """
        selected: Iterable[str] = self.names
        if names is not None:
            patterns = [names] if isinstance(names, str) else list(names)
            matches = re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns) or r"(?!)").match
            selected = filter(matches, selected)
        if bytes is not None:
            minimum, maximum = bytes[0], math.inf if bytes[1] is None else bytes[1]
            selected = [name for name in selected if minimum <= self.size(name) <= maximum]
        if where is not None:
            selected = [name for name in selected if where(self._load(name))]
        return self._select(list(selected))

    def subset(self, names: Iterable[str]) -> Corpus:
        """Return the modules whose names are among these, in the same order. A name is no pattern."""
        wanted = frozenset(names)
        return self._select([name for name in self.names if name in wanted])

    def split(self, part: Part) -> Corpus:
        """Return a part of the corpus for training, validation or testing.

        A module's part follows from its project alone, so it is the same in a filtered or joined corpus and at every
        optimisation level (`mlgo_gym.corpus.parts`). A training part excludes copies of modules that are held out from
        it anywhere in `whole()`: modules with equal sources, or with equal bitcode.

        Args:
            part: `"train"` or `"test"`, about four fifths and a fifth; or `"fit"` or `"valid"`, the same of `"train"`.

        Raises:
            CorpusError: an argument has another value, or a file of a module cannot be read.
        """
        if part not in PARTS:
            raise CorpusError(f"expected a part of {', '.join(PARTS)}, got {part!r}{did_you_mean(str(part), PARTS)}")
        names = [name for name in self.names if is_project_part(*self.origin(name), part)]
        return self._select(self.without_copies(names, part))

    def without_copies(self, names: Sequence[str], part: Part) -> list[str]:
        """Return the names, without copies of modules of `whole()` that are held out from a part.

        Copies have equal sources or equal bitcode. A module whose files cannot be read is no copy.
        """
        whole = self._modules.names if names and part in HELD_OUT else ()
        held_out = [name for name in whole if any(is_project_part(*self.origin(name), held) for held in HELD_OUT[part])]
        if not held_out:
            return list(names)
        digests = {digest for digest in map(self._source_digest, held_out) if digest}
        return [name for name in names if self._source_digest(name) not in digests]

    def _source_digest(self, name: str) -> str:
        """Return the digest of a module's source; empty if its files cannot be read, as opening the module reports."""
        try:
            return self._modules.load(name).source_digest()
        except (CorpusError, OSError):
            return ""

    def whole(self) -> Corpus:
        """Return all modules of the corpus that this one is a part of."""
        return self._select(self._modules.names)

    def named(self, name: str) -> Corpus:
        """Return the same modules under another corpus name; the prefix in joined corpora stays."""
        return self._select(self.names, name)

    def sample(self, count: int, *, seed: int) -> list[Module]:
        """Return different modules drawn uniformly by a seed; raise `CorpusError` for too few modules."""
        if not 0 <= count <= len(self):
            raise CorpusError(f"expected a number of modules from 0 to {len(self)}, got {count}; draw fewer")
        positions = random.Random(seed).sample(range(len(self)), count)  # noqa: S311 - an experiment, not a secret
        return [self[position] for position in positions]

    def trusted(self) -> Corpus:
        """Return the same modules with flags that are run unchecked; only for a corpus whose author you know.

        Flags can make clang write any file and load any program; see SECURITY.md.
        """
        return self.changed(partial(replace, trusted=True))

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    def _load(self, name: str) -> Module:
        module = self._modules.load(name)
        for change in self._changes:
            module = change(module)
        return module

    def _select(self, names: Sequence[str], name: str | None = None) -> Corpus:
        origin = self._origin if name is None else self.origin
        corpus = Corpus(
            name or self.name, self._modules, path=self.path, names=names, origin=origin, prefix=self.prefix
        )
        corpus._changes = self._changes
        return corpus

    def changed(self, change: Callable[[Module], Module]) -> Corpus:
        """Return the same modules, each changed by a function whenever it is loaded."""
        corpus = self._select(self.names)
        corpus._changes = (*self._changes, change)
        return corpus


def join_corpora(corpora: Sequence[Corpus], parts: Sequence[Sequence[Part]] = ()) -> Corpus:
    """Return the modules of several corpora with `CORPUS/` before their names.

    Raises `CorpusError` if two corpora have one name.

    Args:
        corpora: the corpora; those without a module count, too.
        parts: the parts that each corpus was split into by project. Copies of modules that any of the corpora holds out
            from them are excluded.
    """
    by_name = {corpus.prefix.replace("/", ":"): corpus for corpus in corpora}
    if len(by_name) != len(corpora):
        text = ", ".join(corpus.name for corpus in corpora)
        raise CorpusError(f"expected corpora with different names, got {text}; rename a folder")
    modules = _JoinedModules(by_name)
    joined = Corpus(",".join(corpus.name for corpus in corpora), modules, origin=modules.origin)
    members = {
        f"{prefix}/{name}": its_parts
        for (prefix, corpus), its_parts in zip(by_name.items(), parts or [()] * len(corpora), strict=True)
        for name in corpus.names
    }
    for part in PARTS:
        names = [name for name, its_parts in members.items() if part in its_parts]
        for copy in set(names).difference(joined.without_copies(names, part)):
            del members[copy]
    return joined._select(list(members))


class _JoinedModules:
    """The modules of several corpora, with `PREFIX/` before the names of each; of a part, those of all its corpus."""

    def __init__(self, corpora: Mapping[str, Corpus]) -> None:
        self._corpora = corpora

    @cached_property
    def names(self) -> Sequence[str]:
        whole = {prefix: corpus.whole().names for prefix, corpus in self._corpora.items()}
        return [f"{prefix}/{name}" for prefix, names in whole.items() for name in names]

    def load(self, name: str) -> Module:
        corpus, local = self._find(name)
        return replace(corpus._load(local), name=name)

    def bitcode(self, name: str) -> Path:
        corpus, local = self._find(name)
        return corpus._modules.bitcode(local)

    def origin(self, name: str) -> tuple[str, str]:
        corpus, local = self._find(name)
        return corpus.origin(local)

    def _find(self, name: str) -> tuple[Corpus, str]:
        prefix, _, local = name.partition("/")
        return self._corpora[prefix], local
