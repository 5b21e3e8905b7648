"""Results of an evaluation, and the statistics of its policies."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.configuration import UNKNOWN, Configuration, ModuleFacts
from mlgo_gym.evaluation.record import DONE, FAILED, NO_DECISIONS, EpisodeRecord
from mlgo_gym.evaluation.statistics import DEFAULT, TEXT, Change, Summary
from mlgo_gym.evaluation.table import certainty, overview


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Results of an evaluation: one episode per policy and module, and facts about the modules by name."""

    configuration: Configuration
    episodes: tuple[EpisodeRecord, ...]
    modules: Mapping[str, ModuleFacts] = field(default_factory=dict)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metric of the evaluation, then `text` if that is another."""
        return tuple(dict.fromkeys((self.configuration.metric, TEXT)))

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies with results, in the order of the evaluation."""
        present = {episode.policy for episode in self.episodes}
        return tuple(name for name in self.configuration.policies if name in present)

    @property
    def projects(self) -> tuple[str, ...]:
        """Names of the projects, sorted."""
        return tuple(sorted({episode.project for episode in self.episodes}))

    @property
    def languages(self) -> tuple[str, ...]:
        """Source languages of the modules, sorted; `unknown` is one of them."""
        return tuple(sorted({self.language(episode.module) for episode in self.episodes}))

    def language(self, module: str) -> str:
        """Return the source language of a module, or `unknown`."""
        facts = self.modules.get(module)
        return UNKNOWN if facts is None else facts.language

    @property
    def without_decisions(self) -> list[str]:
        """Names of the modules without decisions, sorted; no statistic includes them."""
        return sorted({episode.module for episode in self.episodes if episode.status == NO_DECISIONS})

    @property
    def failures(self) -> list[EpisodeRecord]:
        """The failed episodes."""
        return [episode for episode in self.episodes if episode.status == FAILED]

    @property
    def deviations(self) -> list[EpisodeRecord]:
        """Episodes of the policy `default` whose metrics differ from those of plain clang."""
        return [
            episode
            for episode in self.episodes
            if episode.policy == DEFAULT
            and episode.status == DONE
            and any(len(set(episode.metrics[name])) > 1 for name in self.metrics)
        ]

    def summaries(self, project: str | None = None, *, language: str | None = None) -> list[Summary]:
        """Return the summary of each policy, over all modules or those of one project or language."""
        excluded = set(self.without_decisions)
        by_policy: dict[str, list[EpisodeRecord]] = {policy: [] for policy in self.policies}
        for episode in self.episodes:
            if (
                episode.policy in by_policy
                and episode.module not in excluded
                and project in (None, episode.project)
                and (language is None or language == self.language(episode.module))
            ):
                by_policy[episode.policy].append(episode)
        return [self._summary(policy, episodes) for policy, episodes in by_policy.items()]

    def _summary(self, policy: str, episodes: Sequence[EpisodeRecord]) -> Summary:
        done = sorted((episode for episode in episodes if episode.status == DONE), key=lambda episode: episode.module)
        projects, names = tuple(episode.project for episode in done), tuple(episode.module for episode in done)
        return Summary(
            policy,
            modules=len(done),
            failures=sum(episode.status == FAILED for episode in episodes),
            illegal_actions=sum(episode.illegal_actions for episode in episodes),
            seconds=math.fsum(episode.seconds for episode in episodes),
            policy_seconds=math.fsum(episode.policy_seconds for episode in episodes),
            decisions=sum(episode.decisions for episode in episodes if episode.policy_seconds),
            changes={
                metric: Change(tuple(episode.metrics[metric] for episode in done), projects, names)
                for metric in self.metrics
            },
        )

    @property
    def pairs(self) -> list[tuple[str, str, Change]]:
        """Each policy, one that was named before it, and the change from the latter over the modules of both."""
        metric, projects = self.metrics[0], {episode.module: episode.project for episode in self.episodes}
        values = {policy: self.values(policy, metric) for policy in self.policies}
        return [
            (first, second, Change.between(values[first], values[second], projects))
            for first, second in combinations(reversed(self.policies), 2)
        ]

    def values(self, policy: str, metric: str) -> dict[str, float]:
        """Return a policy's metric on each module that it finished and that has decisions."""
        excluded = set(self.without_decisions)
        return {
            episode.module: episode.metrics[metric][0]
            for episode in self.episodes
            if episode.policy == policy and episode.status == DONE and episode.module not in excluded
        }

    def change(self, policy: str) -> float:
        """Return the relative change of the geometric mean of a policy against plain clang: -0.02 is 2 % less.

        It is the number under `geo-mean` in the tables; `summaries()` has other metrics, sums and single projects.

        Raises:
            MlgoError: The policy has no results, or failed on a module, or finished none with decisions.
        """
        if policy not in self.policies:
            raise MlgoError(f"expected a policy with results ({', '.join(self.policies)}), got {policy!r}")
        (summary,) = (summary for summary in self.summaries() if summary.policy == policy)
        if summary.failures:
            raise MlgoError(
                f"expected results of {policy} on every module, got {summary.failures} failed; look at `failures`, or "
                "use `summaries()`, which has the change over the others"
            )
        if not summary.modules:
            raise MlgoError(f"{policy} finished no module with decisions; look at `failures`")
        return summary.changes[self.metrics[0]].mean

    def __str__(self) -> str:
        summaries = self.summaries()
        tables = overview(self.configuration, summaries), certainty(self.configuration.metric, summaries)
        return "\n\n".join(table.as_text() for table in tables)


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
    by_module: dict[str, list[EpisodeRecord]] = defaultdict(list)
    for episode in result.episodes:
        if episode.module not in excluded:
            by_module[episode.module].append(episode)
    for module, episodes in by_module.items():
        if len(episodes) < count:
            raise MlgoError(
                f"expected results of {count} policies on {module}, got {len(episodes)}; finish the evaluation first"
            )
    configuration = replace(result.configuration, policies={**result.configuration.policies, name: ""})
    smallest = (_smallest(name, episodes, result.configuration.metric) for episodes in by_module.values())
    return replace(result, configuration=configuration, episodes=(*result.episodes, *smallest))


def _smallest(name: str, episodes: Sequence[EpisodeRecord], metric: str) -> EpisodeRecord:
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


def _as_plain(episode: EpisodeRecord) -> EpisodeRecord:
    return replace(episode, metrics={name: (plain, plain) for name, (_, plain) in episode.metrics.items()})
