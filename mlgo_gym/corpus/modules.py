"""Where a corpus takes its modules from: the interface, and the sources made of other sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from mlgo_gym.corpus.allowed import check_arguments
from mlgo_gym.corpus.description import read_command, read_metadata
from mlgo_gym.corpus.flags import edit_flags
from mlgo_gym.corpus.inputs import with_inputs
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import CorpusError

ENDLESS = 2**31
"""The length of a corpus that generates modules for as long as they are asked for."""


class Modules(Protocol):
    """Modules by name, each made when it is asked for."""

    @property
    def names(self) -> Sequence[str]:
        """The names, in order."""

    def load(self, name: str) -> Module:
        """Return one of the modules; `CorpusError` when its files are missing or broken."""

    def size(self, name: str) -> int:
        """Return its bytes of bitcode; `CorpusError` when it has none."""

    def stamp(self, name: str) -> str | None:
        """Return what is another text when its files are; None where that cannot be told without reading them."""


def stamp_of(*paths: Path) -> str | None:
    """Return a text that changes with files: the first one's path, and of each the number, the size and the times.

    The time of a file's last change of any kind cannot be set, so a copy with an old date is another file.
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


@dataclass(frozen=True, slots=True)
class SingleModule:
    """One `.bc` file, with the flags in the `.cmd` file beside it, or else those given."""

    path: Path
    fallback: tuple[str, ...] | None = None

    @property
    def names(self) -> Sequence[str]:
        """The name of the file without `.bc`."""
        return (self.path.name.removesuffix(".bc"),)

    def load(self, name: str) -> Module:
        """Return the module."""
        command = self.path.with_suffix(".cmd")
        recorded = read_command(command) if command.is_file() else None
        flags, inputs = (self.fallback, ()) if recorded is None else with_inputs(recorded, self.path.parent)
        metadata = read_metadata(self.path.parent, name)
        return Module(name, self.path, flags, inputs=inputs, trusted=recorded is None, metadata=metadata)

    def size(self, name: str) -> int:  # noqa: ARG002 - there is only one
        """Return its bytes."""
        return self.path.stat().st_size

    def stamp(self, name: str) -> str | None:
        """Return what tells its version."""
        return stamp_of(self.path, self.path.parent / f"{name}.json")


@dataclass(frozen=True, slots=True)
class EditedModules:
    """Modules whose flags are edited as `mlgo_gym.corpus.flags.edit_flags` does."""

    modules: Modules
    add: tuple[str, ...]
    delete: tuple[str, ...]
    replace: dict[str, str]

    @property
    def names(self) -> Sequence[str]:
        """The same names."""
        return self.modules.names

    def load(self, name: str) -> Module:
        """Return a module with edited flags; `CorpusError` when they do not fit or there are none."""
        module = self.modules.load(name)
        if module.flags is None:
            raise CorpusError(f"{name}: it has no recorded flags to edit; open its corpus with flags= first")
        try:
            flags = edit_flags(module.flags, delete=self.delete, replace=self.replace)
        except CorpusError as error:
            raise CorpusError(f"{name}: {error}") from error
        if not module.trusted:
            check_arguments(flags, f"module {name!r}", module.inputs)
        # What is added comes from the one who asks for it.
        return replace(module, flags=(*flags, *self.add), trusted=True)

    def size(self, name: str) -> int:
        """Return the bytes of bitcode."""
        return self.modules.size(name)

    def stamp(self, name: str) -> str | None:
        """Return what tells the version of its files."""
        return self.modules.stamp(name)


@dataclass(frozen=True, slots=True)
class TrustedModules:
    """Modules whose flags are run whatever they are."""

    modules: Modules

    @property
    def names(self) -> Sequence[str]:
        """The same names."""
        return self.modules.names

    def load(self, name: str) -> Module:
        """Return a module that is trusted."""
        return replace(self.modules.load(name), trusted=True)

    def size(self, name: str) -> int:
        """Return the bytes of bitcode."""
        return self.modules.size(name)

    def stamp(self, name: str) -> str | None:
        """Return what tells the version of its files."""
        return self.modules.stamp(name)


class JoinedModules:
    """The modules of several sources, with `PREFIX/` before the names of each.

    Args:
        parts: prefix, the names to take, and source; prefixes differ.
    """

    def __init__(self, parts: Sequence[tuple[str, Sequence[str], Modules]]) -> None:
        self._parts = {prefix: part for prefix, _, part in parts}
        self.names: Sequence[str] = [f"{prefix}/{name}" for prefix, names, _ in parts for name in names]

    def load(self, name: str) -> Module:
        """Return the module under its joined name."""
        prefix, local = self.split_name(name)
        return replace(self._parts[prefix].load(local), name=name)

    def size(self, name: str) -> int:
        """Return the bytes of bitcode."""
        prefix, local = self.split_name(name)
        return self._parts[prefix].size(local)

    def stamp(self, name: str) -> str | None:
        """Return what tells the version of its files."""
        prefix, local = self.split_name(name)
        return self._parts[prefix].stamp(local)

    def split_name(self, name: str) -> tuple[str, str]:
        """Return the prefix of a joined name, and the rest."""
        prefix, _, local = name.partition("/")
        return prefix, local
