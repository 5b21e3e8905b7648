"""Several policies as one: of the objects that they make of a module, the smallest is kept."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.episode_result import DONE, EpisodeResult
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.tables import DEFAULT


def with_smallest(result: EvaluationResult) -> EvaluationResult:
    """Return the results with one more policy, `smallest of N`: the smallest object of all N for each module.

    That is a method of its own, for N compiles of each module, and what `mlgo-clang` does where `MLGO_POLICY` names
    several policies. There `default` is clang alone, and so it is here: where it is among them no module gets larger,
    though clang's own choices over the channel may end otherwise (docs/exactness.md). Times and decisions are the sums
    of all compiles; a module has failed where all have. Modules in which there is nothing to decide stay as they are.

    Raises:
        MlgoError: there are fewer than two policies, or one has not been played on all the modules yet.
    """
    count = len(result.policies)
    if count < 2:
        raise MlgoError(f"the smallest object of several policies was asked for, and the results have {count}")
    name = f"smallest of {count}"
    empty = set(result.without_decisions)
    by_module: dict[str, list[EpisodeResult]] = defaultdict(list)
    for episode in result.episodes:
        if episode.module not in empty:
            by_module[episode.module].append(episode)
    unfinished = [module for module, episodes in by_module.items() if len(episodes) < count]
    if unfinished:
        raise MlgoError(
            f"the smallest object of {count} policies was asked for, and {unfinished[0]} has the results of "
            f"{len(by_module[unfinished[0]])}: finish the evaluation first"
        )
    configuration = replace(result.configuration, policies={**result.configuration.policies, name: ""})
    found = (_smallest(name, episodes, result.configuration.metric) for episodes in by_module.values())
    return replace(result, configuration=configuration, episodes=(*result.episodes, *found))


def _smallest(name: str, episodes: Sequence[EpisodeResult], metric: str) -> EpisodeResult:
    done = [episode for episode in episodes if episode.status == DONE]
    alone = [_by_clang_alone(episode) if episode.policy == DEFAULT else episode for episode in done]
    best = min(alone, key=lambda episode: episode.measures[metric][0]) if alone else episodes[0]
    return replace(
        best,
        policy=name,
        decisions=sum(episode.decisions for episode in episodes),
        seconds=math.fsum(episode.seconds for episode in episodes),
        policy_seconds=math.fsum(episode.policy_seconds for episode in episodes),
    )


def _by_clang_alone(episode: EpisodeResult) -> EpisodeResult:
    return replace(episode, measures={name: (plain, plain) for name, (_, plain) in episode.measures.items()})
