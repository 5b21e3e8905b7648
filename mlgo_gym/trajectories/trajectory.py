"""One episode, decision by decision."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from mlgo_gym.corpus.module import Module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.outcome import describe_failure
from mlgo_gym.episode.stepper import Stepper
from mlgo_gym.errors import CompilerError, NoDecisionError
from mlgo_gym.evaluation.episode_record import measures_of
from mlgo_gym.policies import Policy
from mlgo_gym.session.decision import Decision
from mlgo_gym.session.work import complete
from mlgo_gym.wrappers.credit_rewards import rewards_of


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
        error: how the compile failed, as in `info["error"]`; None where it did not.
        rewards: the reward of each step, which together are that of the episode, where the environment gives credit;
            else None.
    """

    module: str
    steps: tuple[Step, ...]
    handed_over: int
    reward: float
    measures: dict[str, tuple[float, float]]
    error: dict[str, Any] | None = None
    rewards: tuple[float, ...] | None = None


def record_trajectory(env: CompilerEnv, policy: Policy, module: Module) -> Trajectory | None:
    """Return the episode of a policy on a module, or None when there is nothing to decide.

    Args:
        env: the environment; an episode that it is in goes on.
        policy: who decides.
        module: a module of its corpus.

    Raises:
        CompilerError: the compile failed, and the environment has `on_error="raise"`.
        ActionError: the policy's action is illegal, and the environment is strict.
    """
    setup = env.setup
    try:
        begun = complete(env.maker.begin(env.np_random, module), setup.settings.timeout)
    except NoDecisionError:
        return None
    except CompilerError as error:
        if setup.settings.on_error == "raise":
            raise
        return Trajectory(module.name, (), 0, setup.settings.error_reward, {}, describe_failure(error))
    steps: list[Step] = []
    with closing(Stepper(setup, begun)) as stepper:
        while (decision := stepper.decision) is not None:
            observation = stepper.observe()
            answer = stepper.encode(policy.act(observation, stepper.info()))
            steps.append(Step(decision, answer.advice, observation, answer.action))
            stepper.answer(answer)
            stepper.wait()
    assert stepper.ending is not None
    reward, _, info = stepper.ending
    rewards = tuple(rewards_of(stepper.outcome, reward).tolist()) if "credit" in stepper.outcome else None
    handed_over = stepper.episode.handed_over
    return Trajectory(module.name, tuple(steps), handed_over, reward, measures_of(info), info.get("error"), rewards)
