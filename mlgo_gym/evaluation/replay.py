"""Reproduces evaluations and traces by their recorded actions, and compares the metrics and the logs."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Container, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo_clang.files import open_untrusted
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.evaluation.evaluated_policies import EvaluatedPolicies, RunnerSettings, is_plain_clang
from mlgo_gym.evaluation.record import DONE, FAILED, Assignment, EpisodeRecord, Metrics, unpack_actions
from mlgo_gym.evaluation.result_folder import load_result
from mlgo_gym.evaluation.trace import Trajectory, logs_of, record_trajectory
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
    logs: bool = False,
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
        logs: Whether to reproduce failed episodes as well, and every log of a trace, byte for byte.
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
    statuses = (DONE, FAILED) if logs else (DONE,)
    verdicts = []
    with closing(EvaluatedPolicies(settings)) as evaluated:
        version = evaluated.env.toolchain.version_text
        if version != configuration.clang:
            raise MlgoError(f"expected clang {configuration.clang}, got {version}; name that version with --clang")
        for record in result.episodes:
            if record.status not in statuses or (modules is not None and record.module not in modules):
                continue
            policy = configuration.policies.get(record.policy, record.policy)
            try:
                problem = _problem(evaluated, policy, record, Path(folder) if logs else None)
            except MlgoError as error:
                problem = str(error)
            verdicts.append(Verdict(record.policy, record.module, problem))
            progress(verdicts[-1])
    return verdicts


def _problem(evaluated: EvaluatedPolicies, policy: str, record: EpisodeRecord, logs: Path | None) -> str:
    """Return the difference between an episode and its record, and its logs in a folder; empty without one."""
    if is_plain_clang(policy):
        trajectory = Trajectory(evaluated.compile(Assignment(policy, record.module, record.project)))
    else:
        trajectory = _reproduce(evaluated, record)
    error, recorded = trajectory.result.error, record.error
    if error is not None or recorded is not None:
        if error is None:
            return f"expected a failed compile ({(recorded or {}).get('message')}), got an object"
        same = recorded is not None and recorded.get("kind") == error["kind"]
        return "" if same else f"the compile failed: {error['message']}"
    if difference := _difference(record.metrics, trajectory.result.metrics):
        return difference
    for name, write in (logs_of(trajectory, evaluated.env.task) if logs else {}).items():
        expected = io.BytesIO()
        write(expected)
        if not _has_content(Path(logs or "", name), expected.getvalue()):
            return f"{name} differs from the log of these decisions; trace again"
    return ""


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


def _has_content(path: Path, content: bytes) -> bool:
    """Return whether a file has a content."""
    try:
        with open_untrusted(path) as file:
            return file.read(len(content) + 1) == content
    except OSError as error:
        raise MlgoError(f"{path}: expected a training log, got an error: {error}; trace again") from error


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
