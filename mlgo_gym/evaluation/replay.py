"""Reproduces evaluations and traces by their recorded actions, and compares the metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.evaluation.evaluated_policies import EvaluatedPolicies, RunnerSettings, is_plain_clang
from mlgo_gym.evaluation.record import DONE, Assignment, EpisodeRecord, Metrics, unpack_actions
from mlgo_gym.evaluation.result_folder import load_result
from mlgo_gym.evaluation.trace import Trajectory, record_trajectory
from mlgo_gym.make_env import recorded_arguments
from mlgo_gym.policies.loading import plain_clang_flags


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an episode of a policy on a module was reproduced; `problem` is the difference, and empty if it was."""

    policy: str
    module: str
    problem: str = ""


def validate(
    folder: str | Path,
    *,
    corpus: str | None = None,
    clang: str | None = None,
    trust_flags: bool = False,
    modules: Container[str] | None = None,
    progress: Callable[[Verdict], object] = lambda _: None,
) -> list[Verdict]:
    """Reproduce every finished episode of an evaluation by its recorded actions, and compare the metrics.

    The policies are not needed.

    Args:
        folder: Output of `evaluate()` or `trace()`.
        corpus: Corpus, as `open_corpus` takes it. Default: the recorded one.
        clang: Compiler of the recorded version. Default: as for a new environment.
        trust_flags: Whether to run recorded flags and arguments without checking them.
        modules: Names of the modules to reproduce. Default: all.
        progress: Called with each verdict.

    Raises:
        UntrustedError: Running recorded arguments could do more than compile.
        MlgoError: The folder has no results, the corpus does not exist, or the compiler has another version.
    """
    result = load_result(folder)
    configuration = result.configuration
    plain = {name: name for name in configuration.policies.values() if is_plain_clang(name)}
    arguments = recorded_arguments(
        str(folder),
        configuration.environment,
        configuration.arguments,
        corpus=None if corpus else configuration.corpus,
        extra_flags=map(plain_clang_flags, plain),
        trust_flags=trust_flags,
    )
    arguments["clang"] = clang
    settings = RunnerSettings(configuration.environment, corpus or configuration.corpus, arguments, plain)
    verdicts = []
    with closing(EvaluatedPolicies(settings)) as evaluated:
        version = evaluated.env.toolchain.version_text
        if version != configuration.clang:
            raise MlgoError(f"expected clang {configuration.clang}, got {version}; name that version with --clang")
        for record in result.episodes:
            if record.status != DONE or (modules is not None and record.module not in modules):
                continue
            policy = configuration.policies.get(record.policy, record.policy)
            try:
                problem = _problem(evaluated, policy, record)
            except MlgoError as error:
                problem = str(error)
            verdicts.append(Verdict(record.policy, record.module, problem))
            progress(verdicts[-1])
    return verdicts


def _problem(evaluated: EvaluatedPolicies, policy: str, record: EpisodeRecord) -> str:
    """Return the difference between an episode and its record; empty without one."""
    if is_plain_clang(policy):
        result = evaluated.compile(Assignment(policy, record.module, record.project))
    else:
        result = _reproduce(evaluated, record).result
    if result.error is not None:
        return f"the compile failed: {result.error['message']}"
    return _difference(record.metrics, result.metrics)


def _reproduce(evaluated: EvaluatedPolicies, record: EpisodeRecord) -> Trajectory:
    """Return the trajectory of an episode's recorded actions."""
    if record.actions is None and record.decisions:
        raise MlgoError("expected recorded actions, got none; evaluate again")
    actions = unpack_actions(record.actions, evaluated.env.action_space) if record.actions else []
    if len(actions) != record.decisions:
        raise MlgoError(f"expected {record.decisions} recorded actions, got {len(actions)}; evaluate again")
    policy = _RecordedActions(actions)
    assignment = Assignment(record.policy, record.module, record.project)
    try:
        trajectory = record_trajectory(evaluated.env, policy, assignment)
    except CompilerError as error:
        return Trajectory(EpisodeRecord.of_error(assignment, error))
    if unused := len(policy.remaining):
        raise MlgoError(f"expected {len(actions)} decisions, got {len(actions) - unused}; evaluate again")
    return trajectory


class _RecordedActions:
    """Takes recorded actions in order."""

    def __init__(self, actions: Iterable[Any]) -> None:
        self.remaining = deque(actions)
        self._count = len(self.remaining)

    def act(self, observation: Any, info: Any) -> Any:
        """Return the next action."""
        del observation, info
        if not self.remaining:
            raise MlgoError(f"expected {self._count} decisions, got more; evaluate again")
        return self.remaining.popleft()


def _difference(recorded: Metrics, reproduced: Metrics) -> str:
    """Return the differences between metrics; empty if they are equal."""
    lines = []
    for name in sorted({*recorded, *reproduced}):
        was, now = recorded.get(name), reproduced.get(name)
        if was is None or now is None or tuple(was) != tuple(now):
            lines.append(f"{name} was {_pair(was)}, is {_pair(now)}")
    return "; ".join(lines)


def _pair(pair: tuple[float, float] | None) -> str:
    return "not measured" if pair is None else f"{pair[0]:g} (plain clang {pair[1]:g})"
