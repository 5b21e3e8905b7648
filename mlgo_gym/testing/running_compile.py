"""The compile behind an environment's current episode, for tests that inspect it or inject a fault."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.stepper import Answer, Stepper
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
    _stepper: Stepper = field(repr=False)

    @property
    def pid(self) -> int:
        """Process id of the compiler."""
        return self.session.pid

    def kill(self) -> None:
        """Kill the compiler, as the kernel does when memory runs out; the environment's next step fails."""
        self.session.kill()

    def answer(self, advice: bytes) -> dict[str, Any]:
        """Answer the pending decision with any bytes, also those that an environment would not send.

        Returns:
            The info of the next decision or of the end.
        """
        self._stepper.answer(Answer(0, advice, False))
        self._stepper.wait()
        outcome = self._stepper.outcome
        return self._stepper.info() if outcome is None else outcome.info


def running_compile(
    env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any], number: int | None = None
) -> RunningCompile:
    """Return the compile of an environment's current episode as it is now.

    Args:
        env: An environment or a vector environment of mlgo-gym, wrapped or not.
        number: Index of the environment in a vector environment (≥ 0).

    Raises:
        ActionError: No episode is started.
        MlgoError: It is an environment of another package.
    """
    inner: Any = env.unwrapped
    if isinstance(inner, CompilerVectorEnv):
        stepper = inner._sub_envs[number or 0].stepper
    elif isinstance(inner, CompilerEnv):
        stepper = inner._stepper
    else:
        raise MlgoError(f"expected an environment of mlgo-gym, got {type(inner).__name__}; pass another")
    if stepper is None:
        raise ActionError("expected a started episode, got none; call reset()")
    episode = stepper.episode
    return RunningCompile(episode.session, episode.decision, tuple(episode._answers), episode.fork_method, stepper)
