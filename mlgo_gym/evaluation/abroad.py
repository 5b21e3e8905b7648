"""An environment as it is made on another machine, whose modules come with the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.shipping import CorpusOutline
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import ToolchainError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies.shipping import pack_policies
from mlgo_gym.scheduling import Good, Shelf

_MAY_NAME_FILES = ("vocabulary",)
"""The arguments of environments that may name a file."""


@dataclass(frozen=True, slots=True)
class EnvironmentAbroad:
    """An environment without its files.

    Attributes:
        environment: its id.
        arguments: its arguments but for corpus and compiler, JSON-able.
        files: the names of those arguments that name a file.
        corpus: the outline of its corpus.
        clang: which compiler: `bundled`, or a path that is the same everywhere.
        binary: the digest of that.
        version: its version.
    """

    environment: str
    arguments: Mapping[str, Any]
    files: tuple[str, ...]
    corpus: CorpusOutline
    clang: str
    binary: str
    version: str

    @classmethod
    def of(cls, environment: str, arguments: Mapping[str, Any], env: CompilerEnv) -> EnvironmentAbroad:
        """Return what another machine needs to make an environment like one of this machine.

        Args:
            environment: the environment's id.
            arguments: the arguments that it was made with; corpus and compiler are its own.
            env: the environment.

        Raises:
            CorpusError: its corpus has no end.
        """
        kept = {name: value for name, value in arguments.items() if name not in ("corpus", "clang")}
        files = tuple(name for name in _MAY_NAME_FILES if name in kept and Path(kept[name]).is_file())
        clang = "bundled" if env.toolchain.bundled else env.toolchain.command[0]
        outline = CorpusOutline.of(env.corpus)
        return cls(environment, kept, files, outline, clang, env.toolchain.digest(), env.toolchain.version_text)

    def arguments_on(self, shelf: Shelf) -> dict[str, Any]:
        """Return the arguments of the environment on this machine, with compiler and corpus.

        Raises:
            ToolchainError: the compiler here is another one.
        """
        toolchain = find_toolchain(self.clang)
        if toolchain.digest() != self.binary:
            raise ToolchainError(
                f"clang {self.version} of SHA-256 {self.binary[:16]} was wanted, that of the machine which started the "
                f"run, and {toolchain.command[0]} is clang {toolchain.version_text} of SHA-256 "
                f"{toolchain.digest()[:16]}; have the same one everywhere, best the bundled one"
            )
        placed = {name: str(shelf.folder(name) / Path(self.arguments[name]).name) for name in self.files}
        return {**self.arguments, **placed, "clang": self.clang, "corpus": self.corpus.on(shelf)}

    def make(self, shelf: Shelf) -> CompilerEnv:
        """Return the environment on this machine.

        Raises:
            ToolchainError: the compiler here is another one.
            MlgoError: it cannot be made here.
        """
        return make_environment(self.environment, self.arguments_on(shelf))

    def goods(self, policies: Sequence[str] = ()) -> dict[str, Good]:
        """Return the files that the environment needs, by argument, and those of policies, by specification.

        Raises:
            PolicyError: a file of a policy cannot be read.
        """
        paths = {name: Path(self.arguments[name]) for name in self.files}
        return {**{name: {path.name: path.read_bytes()} for name, path in paths.items()}, **pack_policies(policies)}
