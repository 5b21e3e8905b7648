"""A policy that combines others: the smallest object of each module."""

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
    """Return the results with one more policy, `smallest of N`: the smallest object of all N policies for each module.

    It costs N compiles per module, and `mlgo-clang` does it if `MLGO_POLICY` names several policies. As there,
    `default` stands for plain clang, so with it no module grows. (Clang's own decisions over the channel may give
    another object; see docs/explanation/exactness.md.) Times and decisions are sums over all policies. A module fails
    if all policies fail on it.

    Raises:
        MlgoError: There are fewer than two policies, or an episode has no result yet.
    """
    count = len(result.policies)
    if count < 2:
        raise MlgoError(f"expected results of two or more policies, got {count}; evaluate another policy")
    name = f"smallest of {count}"
    excluded = set(result.without_decisions)
    by_module: dict[str, list[EpisodeResult]] = defaultdict(list)
    for episode in result.episodes:
        if episode.module not in excluded:
            by_module[episode.module].append(episode)
    for module, episodes in by_module.items():
        if len(episodes) < count:
            raise MlgoError(
                f"expected results of {count} policies on {module}, got {len(episodes)}; finish the evaluation first"
            )
    configuration = replace(result.configuration, policies={**result.configuration.policies, name: ""})
    found = (_smallest(name, episodes, result.configuration.metric) for episodes in by_module.values())
    return replace(result, configuration=configuration, episodes=(*result.episodes, *found))


def _smallest(name: str, episodes: Sequence[EpisodeResult], metric: str) -> EpisodeResult:
    done = [_as_plain(episode) if episode.policy == DEFAULT else episode for episode in episodes]
    done = [episode for episode in done if episode.status == DONE]
    best = min(done, key=lambda episode: episode.metrics[metric][0]) if done else episodes[0]
    return replace(
        best,
        policy=name,
        decisions=sum(episode.decisions for episode in episodes),
        seconds=math.fsum(episode.seconds for episode in episodes),
        policy_seconds=math.fsum(episode.policy_seconds for episode in episodes),
    )


def _as_plain(episode: EpisodeResult) -> EpisodeResult:
    return replace(episode, metrics={name: (plain, plain) for name, (_, plain) in episode.metrics.items()})
