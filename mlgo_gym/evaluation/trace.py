"""Every decision of a policy over a corpus: as trajectories, and as training logs beside the results of an evaluation.

LLVM's log_reader.py and google/ml-compiler-opt read the logs. An observation has the features and, as its last tensor,
the decision, as in logs of LLVM's own `-training-log`. An outcome follows each observation, as those readers expect. It
is the reward of the step.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo_gym.cache import errors_name_file
from mlgo_gym.corpus.flags import check_arguments
from mlgo_gym.episode.options import COMPILE_OPTIONS, with_compile_options
from mlgo_gym.errors import CompilerError, MlgoError, PolicyError, UntrustedError
from mlgo_gym.evaluation import Evaluation, EvaluationResult
from mlgo_gym.evaluation.record import DONE, Assignment, EpisodeRecord, Metrics, unpack_actions
from mlgo_gym.evaluation.result import HEADER, load_result
from mlgo_gym.evaluation.runner import EvaluatedPolicies, RunnerSettings, Trajectory, is_plain_clang, record_trajectory
from mlgo_gym.llvm.training_log import LogHeader, LogWriter, TensorSpec
from mlgo_gym.make_env import compiler_environments
from mlgo_gym.policies.loading import plain_clang_flags, with_callee_features
from mlgo_gym.policies.rules import Rule
from mlgo_gym.tasks.task import Task

SCORE = TensorSpec("reward", "float", (1,))
"""Tensor of the outcomes; LLVM's register allocation logs have the same name."""


def trace(
    environment: str,
    policy: str,
    *,
    output: str | Path,
    corpus: str = "builtin",
    env_kwargs: Mapping[str, Any] | None = None,
    seed: int = 0,
    limit: int | None = None,
    progress: Callable[[Trajectory], object] = lambda _: None,
) -> EvaluationResult:
    """Evaluate a policy over a corpus, and write its decisions as training logs.

    The output is that of `evaluate()` with the folder `logs/`. Modules without decisions have no log. The arguments
    `strict` and `error_reward` of the environment apply to illegal actions and failed compiles.

    Args:
        environment, corpus, env_kwargs, seed, limit: As for `evaluate()`.
        policy: Policy, as `load_policy` takes it. If it uses callee features, the environment computes them.
        output: A new folder, or an unfinished trace with the same arguments.
        progress: Called with each episode.

    Raises:
        CompilerError: A compile failed, and `error_reward` is None.
        ActionError: An action is illegal, and `strict` is True.
        MlgoError: The environment, the corpus, the policy or the output cannot be used.
    """
    folder = Path(output)
    if folder.exists() and any(folder.iterdir()) and not (folder / HEADER).exists():
        raise MlgoError(f"expected an empty folder for a trace, got {str(folder)!r}; choose another, or delete it")
    # An observation of the log should have all features of the policy.
    arguments = with_callee_features(env_kwargs or {}, [policy])
    with Evaluation(
        environment, policies=[policy], corpus=corpus, output=folder, env_kwargs=arguments, seed=seed, limit=limit
    ) as evaluation:
        evaluated = evaluation.evaluated
        if policy not in evaluated.policies:
            raise PolicyError(f"expected a policy that takes decisions, got {policy!r}; name another")
        logs = [
            folder / log
            for episode in evaluation.result.episodes
            if episode.decisions
            for log in log_names(episode.module, evaluated.env.task)
        ]
        if evaluation.configuration.policies.keys() != {policy} or not all(log.is_file() for log in logs):
            raise MlgoError(
                f"expected a trace of {policy} alone in {str(folder)!r}, got other results or none of its logs; choose "
                "another output"
            )
        while len(evaluation.schedule):
            assignment = evaluation.schedule.popleft()
            trajectory = record_trajectory(evaluated.env, evaluated.policies[policy], assignment)
            _write_logs(folder, trajectory, evaluated.env.task)
            evaluation.add(trajectory.result)
            progress(trajectory)
        return evaluation.result


def _write_logs(folder: Path, trajectory: Trajectory, task: Task) -> None:
    """Write the decisions of each advisor and their rewards, byte for byte as LLVM's `Logger` would; none without."""
    for advisor, name in enumerate(log_names(trajectory.result.module, task) if trajectory.steps else ()):
        header = task.headers[advisor]
        assert header.advice is not None, "clang waits for it"
        indices = [index for index, step in enumerate(trajectory.steps) if step.decision.advisor == advisor]
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with errors_name_file(path), path.open("wb") as stream:
            log = LogWriter(stream, LogHeader((*header.features, header.advice), score=SCORE))
            context: str | None = None
            for index, reward in zip(indices, trajectory.rewards_at(indices), strict=True):
                step = trajectory.steps[index]
                if step.decision.context != context:
                    context = step.decision.context
                    log.context(context)
                log.observation(step.decision.payload + step.advice)
                log.outcome(reward)


def log_names(module: str, task: Task) -> list[str]:
    """Return the path of a module's log for each advisor of a task, relative to the output.

    Slashes in the name separate folders. Raises `MlgoError` for a name that leads out of the folder.
    """
    if module.startswith("/") or ".." in module.split("/"):
        raise MlgoError(f"expected a module name without a leading slash and `..`, got {module!r}; rename the module")
    advisors = [f".{advisor.name}" for advisor in task.advisors] if len(task.advisors) > 1 else [""]
    return [f"logs/{module}{advisor}.log" for advisor in advisors]


_REPEATED_FAILURES = frozenset({"exit", "object", "program", "protocol", "signal"})
"""Kinds of failures that depend on the module, the flags and the answers alone."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an episode of a policy on a module was reproduced; `problem` is the difference, and empty if it was."""

    policy: str
    module: str
    problem: str = ""


def recorded_arguments(
    origin: str,
    environment: str,
    arguments: Mapping[str, Any],
    *,
    corpus: str | None,
    extra_flags: Iterable[Sequence[str]] = (),
    trust_flags: bool,
) -> dict[str, Any]:
    """Return the arguments of an environment that an untrusted file records.

    Raises `UntrustedError` if running them could do more than compile, unless `trust_flags`. The `corpus` is None if
    the user names another, and `extra_flags` are further recorded flags of compiles. Messages name the file `origin`.
    """
    checked = with_compile_options(arguments, trust_flags=trust_flags, check_flags=not trust_flags)
    if trust_flags:
        return checked
    if environment not in compiler_environments():
        raise UntrustedError(f"{origin}: {environment!r} would be imported; if you know its author, pass --trust-flags")
    if corpus is not None and "pypi:" in corpus:
        raise UntrustedError(
            f"{origin}: the corpus {corpus!r} runs the build of a package; fetch it yourself and name it with "
            "--corpus, or pass --trust-flags"
        )
    entries = checked[COMPILE_OPTIONS]
    # Each environment checks its flags. These checks name the file, and end a command before its first compile.
    for words in (("-cc1", *(entries.get("extra_flags") or ())), *(("-cc1", *words) for words in extra_flags)):
        check_arguments(words, origin)
    check_arguments(tuple(entries.get("flags") or ()), origin)
    return checked


def validate(
    folder: str | Path,
    *,
    corpus: str | None = None,
    clang: str | None = None,
    trust_flags: bool = False,
    modules: Container[str] | None = None,
    progress: Callable[[Verdict], object] = lambda _: None,
) -> list[Verdict]:
    """Reproduce the episodes of an evaluation by their recorded actions, and compare the metrics or the failures.

    The policies are not needed. Failures of a policy, and failures by a limit of time or memory, are not reproduced.

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
            if not is_reproducible(record) or (modules is not None and record.module not in modules):
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
    if record.error is not None:
        was, now = (_failure(entry) for entry in (record.error, result.error))
        return "" if was == now else f"expected the recorded failure {was!r}, got {now!r}; compile with the same clang"
    if result.error is not None:
        return f"the compile failed: {result.error['message']}"
    return _difference(record.metrics, result.metrics)


def is_reproducible(record: EpisodeRecord) -> bool:
    """Return whether a repeated compile has to end as recorded."""
    return record.status == DONE or (record.error is not None and record.error["kind"] in _REPEATED_FAILURES)


def _failure(error: Mapping[str, Any] | None) -> str:
    return "none" if error is None else f"{error['kind']}, exit status {error.get('exit_status')}"


def _reproduce(evaluated: EvaluatedPolicies, record: EpisodeRecord) -> Trajectory:
    if record.actions is None and record.decisions:
        raise MlgoError("expected recorded actions, got none; evaluate again")
    actions = unpack_actions(record.actions, evaluated.env.action_space) if record.actions else []
    if len(actions) != record.decisions:
        raise MlgoError(f"expected {record.decisions} recorded actions, got {len(actions)}; evaluate again")
    remaining = deque(actions)

    def act(_observation: Any, _info: Any) -> Any:
        if not remaining:
            raise MlgoError(f"expected {len(actions)} decisions, got more; evaluate again")
        return remaining.popleft()

    assignment = Assignment(record.policy, record.module, record.project)
    try:
        trajectory = record_trajectory(evaluated.env, Rule(act), assignment)
    except CompilerError as error:
        return Trajectory(EpisodeRecord.of_error(assignment, error))
    if unused := len(remaining):
        raise MlgoError(f"expected {len(actions)} decisions, got {len(actions) - unused}; evaluate again")
    return trajectory


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
