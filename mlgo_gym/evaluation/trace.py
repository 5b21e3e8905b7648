"""Every decision of a policy over a corpus: as trajectories, and as training logs beside the results of an evaluation.

LLVM's log_reader.py and google/ml-compiler-opt read the logs. An observation has the features and, as its last tensor,
the decision, as in logs of LLVM's own `-training-log`. An outcome follows each observation, as those readers expect. It
is the reward of the step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from mlgo_gym.cache import errors_name_file
from mlgo_gym.compiler.coroutine import run_blocking
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.options import with_compile_options
from mlgo_gym.episode.outcome import failure_reward
from mlgo_gym.errors import CompilerError, MlgoError, NoDecisionError, PolicyError
from mlgo_gym.evaluation import Evaluation, EvaluationResult
from mlgo_gym.evaluation.record import NO_DECISIONS, Assignment, EpisodeRecord
from mlgo_gym.evaluation.result_folder import HEADER
from mlgo_gym.llvm.training_log import LogHeader, LogWriter, TensorSpec
from mlgo_gym.policies import Policy
from mlgo_gym.policies.loading import with_callee_features
from mlgo_gym.tasks.task import Task

SCORE = TensorSpec("reward", "float", (1,))
"""Tensor of the outcomes; LLVM's register allocation logs have the same name."""


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
        result: Record of the episode.
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
        return Trajectory(EpisodeRecord.of_error(assignment, error, reward=failure_reward(setup)))
    steps: list[Step] = []
    illegal = 0
    with closing(episode):
        while (decision := episode.decision) is not None:
            observation = episode.observe()
            action, advice, is_illegal = episode.take(policy.act(observation, episode.info()))
            steps.append(Step(decision, advice, observation, action))
            illegal += is_illegal
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


def trace(
    environment: str,
    policy: str,
    *,
    output: str | Path,
    corpus: str = "builtin",
    env_kwargs: Mapping[str, Any] | None = None,
    seed: int = 0,
    limit: int | None = None,
    trust_flags: bool = False,
    progress: Callable[[Trajectory], object] = lambda _: None,
) -> EvaluationResult:
    """Evaluate a policy over a corpus, and write its decisions as training logs.

    The output is that of `evaluate()` with the folder `logs/`. Modules without decisions have no log. The arguments
    `strict` and `error_reward` of the environment apply to illegal actions and failed compiles.

    Args:
        environment: Id of the environment, such as `mlgo/Inline-v0`.
        policy: Policy, as `load_policy` takes it. If it uses callee features, the environment computes them.
        output: A new folder, or an unfinished trace with the same arguments.
        corpus: Corpus, as `open_corpus` takes it.
        env_kwargs: Other arguments of the environment, JSON values.
        seed: Seed of random policies and of `limit`.
        limit: Number of modules to draw at random (≥ 1). Default: all.
        trust_flags: Whether to run recorded flags without checking them.
        progress: Called with each episode.

    Raises:
        CompilerError: A compile failed, and `error_reward` is None.
        ActionError: An action is illegal, and `strict` is True.
        MlgoError: The environment, the corpus, the policy or the output cannot be used.
    """
    folder = Path(output)
    if folder.exists() and any(folder.iterdir()) and not (folder / HEADER).exists():
        raise MlgoError(f"expected an empty folder for a trace, got {str(folder)!r}; choose another, or delete it")
    arguments = dict(env_kwargs or {})
    if trust_flags:
        arguments = with_compile_options(arguments, trust_flags=True)
    # An observation of the log should have all features of the policy.
    arguments = with_callee_features(arguments, [policy])
    with Evaluation(
        environment, policies=[policy], corpus=corpus, output=folder, env_kwargs=arguments, seed=seed, limit=limit
    ) as evaluation:
        evaluated = evaluation.evaluated
        if policy not in evaluated.policies:
            raise PolicyError(f"expected a policy that takes decisions, got {policy!r}; name another")
        while len(evaluation.schedule):
            assignment = evaluation.schedule.popleft()
            trajectory = record_trajectory(evaluated.env, evaluated.policies[policy], assignment)
            for path, write in logs_of(trajectory, evaluated.env.task).items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                with errors_name_file(folder / path), (folder / path).open("wb") as stream:
                    write(stream)
            evaluation.add(trajectory.result)
            progress(trajectory)
        return evaluation.result


def logs_of(trajectory: Trajectory, task: Task) -> dict[str, Callable[[IO[bytes]], None]]:
    """Return a function that writes the log, by its path in the output, for each advisor; none without decisions."""
    logs: dict[str, Callable[[IO[bytes]], None]] = {}
    for number, name in enumerate(log_names(trajectory.result.module, task) if trajectory.steps else ()):
        own = [index for index, step in enumerate(trajectory.steps) if step.decision.advisor == number]
        steps = [trajectory.steps[index] for index in own]
        logs[name] = partial(write_log, header=task.headers[number], steps=steps, rewards=trajectory.rewards_at(own))
    return logs


def log_names(module: str, task: Task) -> list[str]:
    """Return the path of a module's log for each advisor of a task, relative to the output.

    Slashes in the name separate folders. Raises `MlgoError` for a name that leads out of the folder.
    """
    if module.startswith("/") or ".." in module.split("/"):
        raise MlgoError(f"expected a module name without a leading slash and `..`, got {module!r}; rename the module")
    advisors = [f".{advisor.name}" for advisor in task.advisors] if len(task.advisors) > 1 else [""]
    return [f"logs/{module}{advisor}.log" for advisor in advisors]


def write_log(stream: IO[bytes], header: LogHeader, steps: Sequence[Step], rewards: Sequence[float]) -> None:
    """Write the decisions of one advisor and their rewards in order, byte for byte as LLVM's `Logger` would.

    Raises:
        MlgoError: The header of the channel has no advice.
    """
    if header.advice is None:
        raise MlgoError("expected the header of an interactive channel, got one without advice; use a compiler's own")
    log = LogWriter(stream, LogHeader((*header.features, header.advice), score=SCORE))
    context: str | None = None
    for step, reward in zip(steps, rewards, strict=True):
        if step.decision.context != context:
            context = step.decision.context
            log.context(context)
        log.observation(step.decision.payload + step.advice)
        log.outcome(reward)
