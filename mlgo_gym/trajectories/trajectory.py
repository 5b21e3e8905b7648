"""One episode, decision by decision."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from mlgo_gym.corpus.module import Module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.evaluation.episode_record import measures_of
from mlgo_gym.policies import Policy
from mlgo_gym.session.decision import Decision


@dataclass(frozen=True, slots=True)
class Step:
    """One decision and its answer.

    Attributes:
        decision: what clang asked, its features as clang wrote them.
        advice: the bytes that it was answered with.
        observation: what the policy saw.
        action: what it chose; clang's own choice in place of an illegal action.
    """

    decision: Decision
    advice: bytes
    observation: Any
    action: Any


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode.

    Attributes:
        module: the module's name.
        steps: the policy's decisions; not those that clang took because the budget was spent.
        handed_over: how many those were.
        reward: the reward of the episode, which comes with its last step; the others have 0.
        measures: what was measured, by name: the policy's value and that of plain clang.
    """

    module: str
    steps: tuple[Step, ...]
    handed_over: int
    reward: float
    measures: dict[str, tuple[float, float]]


def record_trajectory(env: CompilerEnv, policy: Policy, module: Module) -> Trajectory | None:
    """Return the episode of a policy on a module, or None when there is nothing to decide.

    Args:
        env: the environment; an episode that it is in goes on.
        policy: who decides.
        module: a module of its corpus.

    Raises:
        CompilerError: the compile failed.
    """
    task, maker = env.task, env.maker
    episode = maker.start(module, None, env.np_random)
    if episode is None:
        return None
    steps: list[Step] = []
    with closing(episode):
        episode.wait(maker.settings.timeout)
        while (decision := episode.decision) is not None:
            observation, info = maker.observe(episode)
            action = policy.act(observation, info)
            advice = task.encode(decision, action)
            if advice is None:
                action, advice = task.default_action(decision), task.default_advice(decision)
            steps.append(Step(decision, advice, observation, action))
            episode.answer(advice)
            episode.wait(maker.settings.timeout)
        reward, info = maker.conclude(episode)
    if not steps:
        return None
    return Trajectory(module.name, tuple(steps), episode.handed_over, reward, measures_of(info))
