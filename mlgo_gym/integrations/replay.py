"""Reproduces traces by their advice and evaluations by their actions, and compares the metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.module import Module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.evaluation.evaluated_policies import EvaluatedPolicies, RunnerSettings, is_plain_clang
from mlgo_gym.evaluation.record import (
    DONE,
    NO_DECISIONS,
    Assignment,
    EpisodeRecord,
    compile_metrics,
    metrics_of,
    unpack_actions,
)
from mlgo_gym.evaluation.result_folder import load_result
from mlgo_gym.integrations.logs import log_names, read_advice
from mlgo_gym.make_env import recorded_arguments
from mlgo_gym.policies.loading import plain_clang_flags
from mlgo_gym.tasks.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an episode of a policy on a module was reproduced; `problem` is the difference, and empty if it was."""

    policy: str
    module: str
    problem: str = ""


def replay(
    folder: str | Path,
    *,
    corpus: str | None = None,
    clang: str | None = None,
    trust_flags: bool = False,
    progress: Callable[[Verdict], object] = lambda _: None,
) -> list[Verdict]:
    """Reproduce every episode of a trace, and compare the metrics with the recorded ones.

    Args:
        folder: Output of `trace()`.
        corpus: Corpus, as `open_corpus` takes it. Default: the recorded one.
        clang: Compiler of the recorded version. Default: as for a new environment.
        trust_flags: Whether to run recorded flags and arguments without checking them.
        progress: Called with each verdict.

    Raises:
        UntrustedError: Running recorded arguments could do more than compile.
        MlgoError: The folder has no trace, the corpus does not exist, or the compiler has another version.
    """
    return _reproduce_all(
        folder,
        lambda episode: episode.status != NO_DECISIONS,
        partial(_advice_difference, Path(folder)),
        corpus=corpus,
        clang=clang,
        trust_flags=trust_flags,
        progress=progress,
    )


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

    The policies are not needed. The other arguments and the errors are those of `replay()`.

    Args:
        folder: Output of `evaluate`.
        modules: Names of the modules to reproduce. Default: all.
    """
    return _reproduce_all(
        folder,
        lambda episode: episode.status == DONE and (modules is None or episode.module in modules),
        _actions_difference,
        corpus=corpus,
        clang=clang,
        trust_flags=trust_flags,
        progress=progress,
    )


def _reproduce_all(
    folder: str | Path,
    is_chosen: Callable[[EpisodeRecord], bool],
    compare: Callable[[EvaluatedPolicies, str, EpisodeRecord], str],
    *,
    corpus: str | None,
    clang: str | None,
    trust_flags: bool,
    progress: Callable[[Verdict], object],
) -> list[Verdict]:
    """Return the verdicts on the chosen episodes of an evaluation or a trace; the other arguments are `replay()`'s.

    `compare` returns the difference of an episode; it receives the environment, the identity of the policy and the
    episode.
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
        check_version(evaluated.env, configuration.clang)
        for episode in filter(is_chosen, result.episodes):
            policy = configuration.policies.get(episode.policy, episode.policy)
            difference = compare(evaluated, policy, episode)
            verdicts.append(Verdict(episode.policy, episode.module, difference))
            progress(verdicts[-1])
    return verdicts


def check_version(env: CompilerEnv, version: str) -> None:
    """Check the version of an environment's compiler; raise `MlgoError` if it is another one."""
    if env.toolchain.version_text != version:
        raise MlgoError(f"expected clang {version}, got {env.toolchain.version_text}; name that version with --clang")


def _advice_difference(folder: Path, evaluated: EvaluatedPolicies, _policy: str, episode: EpisodeRecord) -> str:
    env = evaluated.env
    if episode.decisions:
        advice = [read_advice(folder / name) for name in log_names(episode.module, env.task)]
    else:
        advice = [[] for _ in env.task.advisors]
    logged = sum(map(len, advice))
    if logged != episode.decisions:
        return f"expected {episode.decisions} decisions in its logs, got {logged}"
    try:
        module = env.corpus.module(episode.module)
        measurement = _compile(env, module, advice, handed_over=bool(episode.handed_over))
        baseline = measure_baseline(
            env.compilation(module), env.setup.timeout, optimization_record=env.task.optimization_record
        )
    except CompilerError as error:
        same = episode.error is not None and episode.error["kind"] == error.kind
        return "" if same else str(error)
    except MlgoError as error:
        return str(error)
    if episode.error is not None:
        return f"expected a failed compile ({episode.error['message']}), got an object"
    return _differences(episode.metrics, compile_metrics(env.task, measurement, baseline))


def _differences(recorded: dict[str, tuple[float, float]], found: dict[str, tuple[float, float]]) -> str:
    """Return the differences between recorded and found metrics; empty if they are equal."""
    lines = []
    for name in sorted({*recorded, *found}):
        was, now = recorded.get(name), found.get(name)
        if was is None or now is None or tuple(was) != tuple(now):
            lines.append(f"{name} was {_pair(was)}, is {_pair(now)}")
    return "; ".join(lines)


def _pair(pair: tuple[float, float] | None) -> str:
    return "not measured" if pair is None else f"{pair[0]:g} (plain clang {pair[1]:g})"


def _compile(env: CompilerEnv, module: Module, advice: Sequence[Sequence[bytes]], *, handed_over: bool) -> Measurement:
    """Compile a module with recorded advice by advisor; a single advisor's is sent ahead, so that clang never waits."""
    task, timeout = env.task, env.setup.timeout
    queues = [deque(answers) for answers in advice]
    total = sum(map(len, advice))

    def choose(decision: Decision) -> bytes:
        if queues[decision.advisor]:
            return queues[decision.advisor].popleft()
        if handed_over:
            return task.default_advice(decision)
        raise MlgoError(f"expected {total} decisions, got more; trace again")

    with env.compilation(module).session(task.advisors, optimization_record=task.optimization_record) as session:
        if len(queues) == 1:
            session.advise_ahead(advice[0])
            queues[0].clear()
        compiled = drive(session, choose, timeout)
        unused = sum(map(len, queues)) + session.advice_ahead
    if unused:
        raise MlgoError(f"expected {total} decisions, got {total - unused}; trace again")
    return Measurement.of(compiled)


def _actions_difference(evaluated: EvaluatedPolicies, policy: str, episode: EpisodeRecord) -> str:
    if is_plain_clang(policy):
        result = evaluated.compile(Assignment(policy, episode.module, episode.project))
        if result.status != DONE:
            return f"the compile failed: {result.error}"
        return _differences(episode.metrics, result.metrics)
    try:
        return _differences(episode.metrics, _reproduce(evaluated.env, episode))
    except MlgoError as error:
        return str(error)


def _reproduce(env: CompilerEnv, episode: EpisodeRecord) -> dict[str, tuple[float, float]]:
    """Return the metrics of an episode's recorded actions."""
    if episode.actions is None:
        raise MlgoError("expected recorded actions, got none; evaluate again")
    actions = unpack_actions(episode.actions, env.action_space)
    if len(actions) != episode.decisions:
        raise MlgoError(f"expected {episode.decisions} recorded actions, got {len(actions)}; evaluate again")
    env.reset(options={"module": episode.module})
    info: dict[str, Any] = {}
    for number, action in enumerate(actions, start=1):
        _, _, terminated, truncated, info = env.step(action)
        if truncated:
            raise MlgoError(f"the compile failed: {info['error']}")
        if terminated != (number == len(actions)):
            raise MlgoError(
                f"expected {len(actions)} decisions, got {number if terminated else 'more'}; evaluate again"
            )
    return metrics_of(info)
