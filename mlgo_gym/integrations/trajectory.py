"""One episode, decision by decision."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from mlgo_gym.compiler.coroutine import run_blocking
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.outcome import describe_failure, failure_reward
from mlgo_gym.errors import CompilerError, MlgoError, NoDecisionError
from mlgo_gym.evaluation.record import FAILED, NO_DECISIONS, Assignment, EpisodeRecord
from mlgo_gym.policies import Policy


@dataclass(frozen=True, slots=True)
class Step:
    """One decision of a policy.

    Attributes:
        decision: The decision, with its features as clang wrote them.
        advice: Bytes of the advice that clang received.
        observation: Observation of the policy.
        action: Action of the policy; clang's own choice if that was illegal.
    """

    decision: Decision
    advice: bytes
    observation: Any
    action: Any


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode, decision by decision.

    Attributes:
        result: Result of the episode.
        steps: Decisions of the policy.
        rewards: Reward of each step, if the environment gives credit; else None, and the reward comes with the last
            step.
    """

    result: EpisodeRecord
    steps: tuple[Step, ...] = ()
    rewards: tuple[float, ...] | None = None

    def rewards_at(self, indices: Sequence[int]) -> list[float]:
        """Return the rewards of some steps; without credit, the last of them has the reward of the episode."""
        if self.rewards is not None:
            return [self.rewards[index] for index in indices]
        return [*(0.0 for _ in indices[1:]), self.result.reward or 0.0] if indices else []


def record_trajectory(env: CompilerEnv, policy: Policy, assignment: Assignment) -> Trajectory:
    """Return the episode of a policy on a module of the environment, whose current episode is not affected.

    Raises:
        CompilerError: The compile failed, and the environment has `error_reward=None`.
        ActionError: The policy's action is illegal, and the environment is strict.
    """
    setup, module = env.setup, env.corpus.module(assignment.module)
    begin = time.perf_counter()
    try:
        episode = run_blocking(env.maker.begin(env.np_random, module), setup.timeout)
    except NoDecisionError:
        return Trajectory(EpisodeRecord(*assignment, NO_DECISIONS))
    except CompilerError as error:
        if setup.options.error_reward is None:
            raise
        reward = failure_reward(setup)
        return Trajectory(EpisodeRecord(*assignment, FAILED, reward=reward, error=describe_failure(error)))
    steps: list[Step] = []
    illegal = 0
    with closing(episode):
        while (decision := episode.decision) is not None:
            observation = episode.observe()
            answer = episode.take(policy.act(observation, episode.info()))
            steps.append(Step(decision, answer.advice, observation, answer.action))
            illegal += answer.illegal
    if episode.outcome is None:
        raise MlgoError(f"expected the end of an episode of {assignment.module!r}, got none; report this defect")
    result = EpisodeRecord.of_episode(
        assignment,
        episode.full_info,
        [step.action for step in steps],
        env.action_space,
        reward=episode.outcome.reward,
        illegal_actions=illegal,
        seconds=time.perf_counter() - begin,
    )
    return Trajectory(result, tuple(steps), episode.full_info.get("rewards"))
