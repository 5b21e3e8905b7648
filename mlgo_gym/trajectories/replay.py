"""Run a trace again: the answers are sent ahead, and what was measured must be the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.corpus.module import Module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.evaluation.episode_record import measures_of
from mlgo_gym.evaluation.strangers import recorded_arguments
from mlgo_gym.session.session import Session
from mlgo_gym.tasks.measurement import Measurement
from mlgo_gym.trajectories.logs import read_answers
from mlgo_gym.trajectories.trace_folder import TracedEpisode, read_trace


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an episode was reproduced.

    Attributes:
        policy: the policy.
        module: the module's name.
        problem: what differs; empty when nothing does.
    """

    policy: str
    module: str
    problem: str = ""


def replay(
    folder: str | Path,
    *,
    corpus: str | None = None,
    clang: str | None = None,
    trust: bool = False,
    progress: Callable[[Verdict], object] = lambda _: None,
) -> list[Verdict]:
    """Run every episode of a trace again, and compare what is measured with what was.

    Args:
        folder: what `trace()` wrote.
        corpus: where the corpus is now; by default where it was.
        clang: the compiler, of the same version; by default as for a new environment.
        trust: whether to run the flags of the corpus, and what the trace names, whatever they are.
        progress: called with each verdict.

    Raises:
        UntrustedError: running what the trace names could do more than compile.
        MlgoError: the folder holds no trace, the corpus is gone, or the compiler is of another version.
    """
    path = Path(folder)
    meta, episodes = read_trace(path)
    theirs = None if corpus else meta.corpus
    arguments = recorded_arguments(str(path), meta.environment, meta.arguments, corpus=theirs, trust=trust)
    env = make_environment(meta.environment, {**arguments, "corpus": corpus or meta.corpus, "clang": clang})
    check_version(env, meta.clang)
    verdicts = []
    for episode in episodes:
        verdicts.append(Verdict(meta.policy, episode.module, _difference(path, env, episode)))
        progress(verdicts[-1])
    return verdicts


def check_version(env: CompilerEnv, version: str) -> None:
    """Check that an environment's compiler is of a version.

    Raises:
        MlgoError: it is of another.
    """
    if env.toolchain.version_text != version:
        raise MlgoError(
            f"the episodes were made by clang {version}, and this is {env.toolchain.version_text}; name that one with "
            "--clang"
        )


def _difference(folder: Path, env: CompilerEnv, episode: TracedEpisode) -> str:
    answers = [read_answers(folder / log) for log in episode.logs] or [[] for _ in env.task.advisors]
    recorded = sum(map(len, answers))
    if recorded != episode.decisions:
        return f"{episode.decisions} decisions were wanted, its logs have {recorded}"
    try:
        module = env.corpus.module(episode.module)
        timeout = env.setup.settings.timeout
        measurement = compile_with(env, module, answers, budget=bool(episode.handed_over))
        baseline = measure_baseline(env.compilation(module), timeout, optimization_record=env.task.optimization_record)
    except CompilerError as error:
        again = episode.error is not None and episode.error["kind"] == error.kind
        return "" if again else str(error)
    except MlgoError as error:
        return str(error)
    if episode.error is not None:
        return f"its compile was to fail ({episode.error['message']}), and did not"
    info = env.task.report(measurement, baseline)
    for label, measured in (("", measurement), ("baseline_", baseline)):
        info |= {f"{label}{name}": size for name, size in measured.named_sizes().items()}
    return differences(episode.measures, measures_of(info))


def differences(recorded: dict[str, tuple[float, float]], found: dict[str, tuple[float, float]]) -> str:
    """Return how two sets of measures differ, in words; empty when they do not."""
    lines = []
    for name in sorted({*recorded, *found}):
        was, now = recorded.get(name), found.get(name)
        if was is None or now is None or tuple(was) != tuple(now):
            lines.append(f"{name} was {_pair(was)}, is {_pair(now)}")
    return "; ".join(lines)


def _pair(pair: tuple[float, float] | None) -> str:
    return "not measured" if pair is None else f"{pair[0]:g} (plain clang {pair[1]:g})"


def compile_with(
    env: CompilerEnv, module: Module, answers: Sequence[Sequence[bytes]], *, budget: bool = False
) -> Measurement:
    """Compile a module with known answers, sent ahead where one advisor asks, and return what is measured.

    Args:
        env: the environment, whose task and flags are meant.
        module: the module.
        answers: for each advisor the bytes of one advice tensor per decision.
        budget: whether clang's own choices follow after them.

    Raises:
        CompilerError: the compile failed.
        MlgoError: clang asked more or fewer questions than there are answers.
    """
    task, compilation = env.task, env.compilation(module)
    queues = [deque(each) for each in answers]
    timeout = env.setup.settings.timeout
    confined, record = compilation.confined, task.optimization_record
    with Session(
        compilation.command, task.advisors, optimization_record=record, confined=confined, limits=compilation.limits
    ) as session:
        if len(queues) == 1:
            session.advise_ahead(answers[0])
            queues[0].clear()
        while (decision := session.wait(timeout)) is not None:
            if queues[decision.advisor]:
                session.advise(queues[decision.advisor].popleft())
            elif budget:
                session.advise(task.default_advice(decision))
            else:
                raise MlgoError(f"clang asked more than the {sum(map(len, answers))} questions that were answered")
        left = sum(map(len, queues)) + session.unasked
        if left:
            raise MlgoError(f"clang did not ask the last {left} of {sum(map(len, answers))} questions")
        return Measurement.of(session.finish(timeout))
