"""Writes every decision of a policy over a corpus as training logs, beside the results of an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mlgo_gym.episode.options import with_compile_options
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.evaluation import Evaluation, EvaluationResult
from mlgo_gym.evaluation.result_folder import HEADER
from mlgo_gym.integrations.logs import log_names, write_log
from mlgo_gym.integrations.trajectory import Trajectory, record_trajectory
from mlgo_gym.policies.loading import with_callee_features
from mlgo_gym.storage.cache import errors_name_file
from mlgo_gym.tasks.task import Task


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
        while (assignment := evaluation.schedule.take()) is not None:
            trajectory = record_trajectory(evaluated.env, evaluated.policies[policy], assignment)
            _write_logs(folder, trajectory, evaluated.env.task)
            evaluation.add(trajectory.result)
            progress(trajectory)
        return evaluation.result


def _write_logs(folder: Path, trajectory: Trajectory, task: Task) -> None:
    if not trajectory.steps:
        return
    for number, name in enumerate(log_names(trajectory.result.module, task)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        own = [index for index, step in enumerate(trajectory.steps) if step.decision.advisor == number]
        with errors_name_file(path), path.open("wb") as stream:
            write_log(
                stream, task.headers[number], [trajectory.steps[index] for index in own], trajectory.rewards_at(own)
            )
