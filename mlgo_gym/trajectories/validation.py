"""Run the episodes of an evaluation again: what was measured must be the same."""

from __future__ import annotations

from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.actions import unpack_actions
from mlgo_gym.evaluation.contestants import Contestants, RunnerSettings, is_plain_clang
from mlgo_gym.evaluation.episode_record import Assignment, measures_of
from mlgo_gym.evaluation.episode_result import DONE, EpisodeResult
from mlgo_gym.evaluation.result import load_result
from mlgo_gym.evaluation.strangers import recorded_arguments
from mlgo_gym.trajectories.replay import Verdict, check_version, differences


def validate(
    folder: str | Path,
    *,
    corpus: str | None = None,
    clang: str | None = None,
    trust: bool = False,
    modules: Container[str] | None = None,
    progress: Callable[[Verdict], object] = lambda _: None,
) -> list[Verdict]:
    """Make every finished episode of an evaluation again by its recorded actions, and compare what is measured.

    No policy is asked, so results can be checked by those who do not have it.

    Args:
        folder: the output of `evaluate`.
        corpus: what `open_corpus` takes; by default the corpus by the name that it had.
        clang: the compiler, of the same version; by default as for a new environment.
        trust: whether to run the flags of the corpus, and what the results name, whatever they are.
        modules: leave all others out.
        progress: called with each verdict.

    Raises:
        UntrustedError: running what the results name could do more than compile.
        MlgoError: the folder holds no results, the corpus is gone, or the compiler is of another version.
    """
    result = load_result(folder)
    configuration = result.configuration
    plain = {name: name for name in configuration.policies.values() if is_plain_clang(name)}
    arguments = recorded_arguments(
        str(folder),
        configuration.environment,
        configuration.arguments,
        corpus=None if corpus else configuration.corpus,
        plain=plain,
        trust=trust,
    )
    settings = RunnerSettings(
        configuration.environment,
        corpus or configuration.corpus,
        {**arguments, "clang": clang},
        plain,
        configuration.seed,
    )
    contestants = Contestants(settings)
    verdicts = []
    try:
        check_version(contestants.env, configuration.clang)
        for episode in result.episodes:
            if episode.status == DONE and (modules is None or episode.module in modules):
                identity = configuration.policies[episode.policy]
                again = identity if identity in plain else None
                verdicts.append(Verdict(episode.policy, episode.module, _difference(contestants, episode, again)))
                progress(verdicts[-1])
    finally:
        contestants.close()
    return verdicts


def _difference(contestants: Contestants, episode: EpisodeResult, plain: str | None) -> str:
    if plain is None:
        try:
            found = _play(contestants.env, episode)
        except MlgoError as error:
            return str(error)
    else:
        result = contestants.compile(Assignment(plain, episode.module, episode.project))
        if result.status != DONE:
            return f"the compile failed: {result.error}"
        found = result.measures
    return differences(episode.measures, found)


def _play(env: CompilerEnv, episode: EpisodeResult) -> dict[str, tuple[float, float]]:
    """Return the measures of an episode's actions, taken one after the other."""
    if episode.actions is None:
        raise MlgoError("its actions were not recorded; evaluate again")
    actions = unpack_actions(episode.actions, env.action_space)
    if len(actions) != episode.decisions:
        raise MlgoError(f"{episode.decisions} decisions were wanted, found {len(actions)} actions")
    env.reset(options={"module": episode.module})
    info: dict[str, Any] = {}
    for number, action in enumerate(actions, start=1):
        _, _, terminated, truncated, info = env.step(action)
        if truncated:
            raise MlgoError(f"the compile failed: {info['error']}")
        if terminated != (number == len(actions)):
            raise MlgoError(f"the episode was to end after {len(actions)} decisions, and did not")
    return measures_of(info)
