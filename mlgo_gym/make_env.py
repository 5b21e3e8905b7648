"""Makes environments by id: here, on another machine, and in workers of a list of modules."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic

import gymnasium as gym

import mlgo_gym
from mlgo_gym.corpus.folder import CorpusOutline, pack_module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError, ToolchainError
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies.loading import pack_policies
from mlgo_gym.scheduling import Execution, FileStore, RemoteWork, StoredFiles, Workers
from mlgo_gym.scheduling.workers import Item, Result


def compiler_environments() -> list[str]:
    """Return the ids of the environments that run a compiler."""
    return [name for name in mlgo_gym.ENVIRONMENTS if name not in mlgo_gym.APPROXIMATIONS]


def make_environment(name: str, arguments: Mapping[str, Any]) -> CompilerEnv:
    """Return an environment of this package that runs a compiler, by its id, without wrappers; else `MlgoError`."""
    if (approximated := mlgo_gym.APPROXIMATIONS.get(name.removeprefix("mlgo_gym:"))) is not None:
        raise MlgoError(f"expected an environment with a compiler, got {name!r}; use {approximated}")
    try:
        env = gym.make(name, disable_env_checker=True, **arguments).unwrapped
    except gym.error.Error as error:
        known = ", ".join(compiler_environments())
        raise MlgoError(f"expected one of {known}, got {name!r} ({error})") from error
    except ModuleNotFoundError as error:
        raise MlgoError(f"expected a module on PYTHONPATH before the colon, got {name!r} ({error})") from error
    except TypeError as error:
        raise MlgoError(f"{name} does not take the arguments {dict(arguments)}: {error}; correct them") from error
    if not isinstance(env, CompilerEnv):
        raise MlgoError(f"expected an environment of mlgo-gym, got {name!r} ({type(env).__name__}); choose another")
    return env


FILE_ARGUMENTS = ("link_facts", "vocabulary")
"""Arguments of environments that may name a file."""


@dataclass(frozen=True, slots=True)
class RemoteEnvironment:
    """Description of an environment, from which another machine makes it.

    `arguments` are those without corpus and compiler; `files` names those that name a file. `clang` is `bundled`, or a
    path that is the same on every machine; `digest` is its SHA-256.
    """

    environment: str
    arguments: Mapping[str, Any]
    files: tuple[str, ...]
    corpus: CorpusOutline
    clang: str
    digest: str
    version: str

    @classmethod
    def of(cls, environment: str, arguments: Mapping[str, Any], env: CompilerEnv) -> "RemoteEnvironment":
        """Return the description of an environment; raise `MlgoError` if other machines cannot have its corpus."""
        if env.setup.project_costs:
            metrics = ", ".join(env.setup.project_costs)
            raise MlgoError(f"expected a metric of single modules for a cluster, got {metrics}; use --jobs, jobs=")
        sent = {name: value for name, value in arguments.items() if name not in ("corpus", "clang")}
        files = tuple(name for name in FILE_ARGUMENTS if sent.get(name) is not None and Path(sent[name]).is_file())
        toolchain, outline = env.toolchain, CorpusOutline.of(env.corpus)
        clang = "bundled" if toolchain.bundled else toolchain.command[0]
        return cls(environment, sent, files, outline, clang, toolchain.digest(), toolchain.version_text)

    def arguments_on(self, store: FileStore) -> dict[str, Any]:
        """Return the arguments with compiler and corpus; `ToolchainError` if this machine has another compiler."""
        toolchain = find_toolchain(self.clang)
        if toolchain.digest() != self.digest:
            raise ToolchainError(
                f"expected clang {self.version} with SHA-256 {self.digest[:16]} as on the machine that started it, "
                f"got {toolchain.command[0]}, clang {toolchain.version_text} with SHA-256 {toolchain.digest()[:16]}; "
                "install the same compiler on every machine, for instance the bundled one"
            )
        stored = {name: str(store.folder(name) / Path(self.arguments[name]).name) for name in self.files}
        return {**self.arguments, **stored, "clang": self.clang, "corpus": self.corpus.open(store)}

    def stored_files(self, policies: Sequence[str] = ()) -> dict[str, StoredFiles]:
        """Return the files of the environment by argument, and those of policies by specification."""
        paths = {name: Path(self.arguments[name]) for name in self.files}
        return {**{name: {path.name: path.read_bytes()} for name, path in paths.items()}, **pack_policies(policies)}


@dataclass(frozen=True, slots=True)
class EnvironmentWork(Generic[Item, Result]):
    """Work in an environment that each worker makes by id and JSON-able arguments, one item after the other.

    Attributes:
        start: Returns the function from an item to its result, for an environment; picklable. The store has the files
            of the policies on a remote machine.
        policies: Specifications of the policies that the work needs.
        module: Returns the name of the module that an item needs. Default: items are names.
    """

    environment: str
    arguments: Mapping[str, Any]
    start: Callable[[CompilerEnv, FileStore | None], Callable[[Item], Result]]
    policies: Sequence[str] = ()
    module: Callable[[Item], str] = str

    def workers(self, env: CompilerEnv, execution: Execution) -> Workers[Item, Result]:
        """Return the workers; the corpus of `env`, an environment on this machine, has the modules."""
        return execution.workers(self._start, partial(self._remote_work, env))

    def _start(self) -> Callable[[Item], Result]:
        return self.start(make_environment(self.environment, self.arguments), None)

    def _remote_work(self, env: CompilerEnv) -> RemoteWork[Item, Result]:
        remote = RemoteEnvironment.of(self.environment, self.arguments, env)
        start = self.start

        def start_remotely(store: FileStore) -> Callable[[Item], Result]:
            return start(make_environment(remote.environment, remote.arguments_on(store)), store)

        return RemoteWork(
            start_remotely, self.module, partial(pack_module, env.corpus), remote.stored_files(self.policies)
        )
