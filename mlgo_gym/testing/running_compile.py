"""The compile behind an environment's current episode, for tests that inspect it or inject a fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import ActionError, MlgoError
from mlgo_gym.session.protocol.decision import Decision
from mlgo_gym.session.session import Session


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

    @property
    def pid(self) -> int:
        """Process id of the compiler."""
        return self.session.pid

    def kill(self) -> None:
        """Kill the compiler, as the kernel does when memory runs out; the environment's next step fails."""
        self.session.kill()


def running_compile(env: gym.Env[Any, Any]) -> RunningCompile:
    """Return the compile of an environment's current episode as it is now.

    Args:
        env: An environment of mlgo-gym, wrapped or not.

    Raises:
        ActionError: No episode is started.
        MlgoError: It is an environment of another package.
    """
    inner = env.unwrapped
    if not isinstance(inner, CompilerEnv):
        raise MlgoError(f"expected an environment of mlgo-gym, got {type(inner).__name__}; pass another")
    stepper = inner._stepper
    if stepper is None:
        raise ActionError("expected a started episode, got none; call reset()")
    episode = stepper.episode
    return RunningCompile(episode.session, episode.decision, tuple(episode._answers), episode.fork_method)
