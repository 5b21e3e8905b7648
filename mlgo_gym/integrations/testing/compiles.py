"""The running and the finished compiles of environments, for tests that inspect them or inject a fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gymnasium as gym

from mlgo_gym.compiler.connection import CompileResult
from mlgo_gym.compiler.coroutine import run_blocking
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.baseline import watchers
from mlgo_gym.episode.episode import Episode
from mlgo_gym.errors import ActionError, MlgoError
from mlgo_gym.vector_env import CompilerVectorEnv


@dataclass(frozen=True, slots=True)
class RunningCompile:
    """One compile of an environment's episode.

    Attributes:
        session: The session with the compiler.
        decision: The pending decision; None at the end of the episode.
        advice: The bytes of each answer so far, clang's own answers included.
        fork_method: `"snapshot"` or `"replay"` if the compile is a copy of another, else None.
    """

    session: Session
    decision: Decision | None
    advice: tuple[bytes, ...]
    fork_method: str | None
    _episode: Episode = field(repr=False)

    @property
    def pid(self) -> int:
        """Process id of the compiler."""
        return self.session.pid

    def kill(self) -> None:
        """Kill the compiler, as the kernel does when memory runs out; the environment's next step fails."""
        self.session.kill()

    def answer(self, advice: bytes) -> dict[str, Any]:
        """Answer the pending decision with any bytes; return the info of the next decision or of the end."""
        self._episode.answer((0, advice, False))
        run_blocking(self._episode.proceed(), self._episode.setup.timeout)
        return self._episode.info() if self._episode.outcome is None else self._episode.outcome.info


def running_compile(
    env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any], number: int | None = None
) -> RunningCompile:
    """Return the compile of an environment's current episode as it is now.

    `number` is the index in a vector environment; wrappers do not matter. Raises `ActionError` without an episode, and
    `MlgoError` for an environment of another package.
    """
    inner: Any = env.unwrapped
    if isinstance(inner, CompilerVectorEnv):
        episode = inner._sub_envs[number or 0].episode
    elif isinstance(inner, CompilerEnv):
        episode = inner._episode
    else:
        raise MlgoError(f"expected an environment of mlgo-gym, got {type(inner).__name__}; pass another")
    if episode is None:
        raise ActionError("expected a started episode, got none; call reset()")
    return RunningCompile(episode.session, episode.decision, tuple(episode.answers), episode.fork_method, episode)


class FinishedCompile(NamedTuple):
    """Object and optimisation record of a finished compile, and whether plain clang decided, for the baseline."""

    object_bytes: bytes
    optimization_record: bytes
    plain: bool


@contextmanager
def finished_compiles() -> Iterator[list[FinishedCompile]]:
    """Collect the compiles of episodes that finish in this process, in order, in a list that grows.

    Only whole compiles count: an episode with `scope="function"` and an allocation metric ends with its function. A
    baseline is compiled once and then read from the cache.
    """
    compiles: list[FinishedCompile] = []

    def watch(compiled: CompileResult, plain: bool) -> None:
        compiles.append(FinishedCompile(compiled.object_bytes, compiled.optimization_record, plain))

    watchers.append(watch)
    try:
        yield compiles
    finally:
        watchers.remove(watch)
