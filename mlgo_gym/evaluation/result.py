"""Results of an evaluation, and the statistics of its policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.episode_result import DONE, FAILED, EpisodeResult
from mlgo_gym.evaluation.module_facts import UNKNOWN, ModuleFacts, read_modules
from mlgo_gym.evaluation.pairs import Pair, pair_of
from mlgo_gym.evaluation.result_folder import read_configuration, read_episodes
from mlgo_gym.evaluation.summary import TEXT, Summary, summarize, without_decisions
from mlgo_gym.evaluation.tables import DEFAULT, certainty, overview


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Results of an evaluation: one episode per policy and module, and facts about the modules by name."""

    configuration: Configuration
    episodes: tuple[EpisodeResult, ...]
    modules: Mapping[str, ModuleFacts] = field(default_factory=dict)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metric of the evaluation, then `text` if that is another."""
        return tuple(dict.fromkeys((self.configuration.metric, TEXT)))

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies with results, in the order of the evaluation."""
        found = {episode.policy for episode in self.episodes}
        return tuple(name for name in self.configuration.policies if name in found)

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
        """Names of the modules without decisions; no statistic includes them."""
        return without_decisions(self.episodes)

    @property
    def failures(self) -> list[EpisodeResult]:
        """The failed episodes."""
        return [episode for episode in self.episodes if episode.status == FAILED]

    @property
    def deviations(self) -> list[EpisodeResult]:
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
        chosen = [
            episode
            for episode in self.episodes
            if project in (None, episode.project) and (language is None or language == self.language(episode.module))
        ]
        return [summarize(policy, chosen, self.metrics) for policy in self.policies]

    @property
    def pairs(self) -> list[Pair]:
        """Each policy against each that was named before it, on the modules that both finished."""
        values = {policy: self.values(policy, self.metrics[0]) for policy in self.policies}
        projects = {each.module: each.project for each in self.episodes}
        return [
            pair_of(first, second, (values[first], values[second]), projects)
            for first, second in combinations(reversed(self.policies), 2)
        ]

    def values(self, policy: str, metric: str) -> dict[str, float]:
        """Return a policy's metric on each module that it finished and that has decisions."""
        summary = summarize(policy, self.episodes, [metric])
        return dict(zip(summary.names, (value for value, _ in summary.changes[metric].pairs), strict=True))

    def change(self, policy: str, *, metric: str | None = None, project: str | None = None) -> float:
        """Return the relative change of the geometric mean against plain clang: -0.02 is 2 % less.

        It is the number under `geo-mean` in the tables; `summaries()` has sums, counts and the pair of each module.

        Args:
            policy: Name of the policy.
            metric: One of `metrics`. Default: the first.
            project: Name of a project. Default: all.

        Raises:
            MlgoError: The policy, metric or project has no results, or the policy failed on a module, or finished none
                with decisions.
        """
        metric = self.metrics[0] if metric is None else metric
        for kind, name, known in (
            ("policy", policy, self.policies),
            ("metric", metric, self.metrics),
            ("project", project, (None, *self.projects)),
        ):
            if name not in known:
                raise MlgoError(f"expected a {kind} with results ({', '.join(map(str, known))}), got {name!r}")
        (summary,) = (each for each in self.summaries(project) if each.policy == policy)
        if summary.failures:
            raise MlgoError(
                f"expected results of {policy} on every module, got {summary.failures} failed; look at `failures`, or "
                "use `summaries()`, which has the change over the others"
            )
        if not summary.modules:
            raise MlgoError(f"{policy} finished no module with decisions; look at `failures`")
        return summary.changes[metric].mean

    def __str__(self) -> str:
        summaries = self.summaries()
        tables = overview(self.configuration, summaries), certainty(self.configuration.metric, summaries)
        return "\n\n".join(table.as_text() for table in tables)


def load_result(folder: str | Path) -> EvaluationResult:
    """Return the results in the output folder of an evaluation, finished or not.

    Raises:
        MlgoError: The folder has no results, or they are damaged.
    """
    path = Path(folder)
    result = EvaluationResult(read_configuration(path), tuple(read_episodes(path)), read_modules(path))
    for episode in result.episodes:
        missing = [name for name in result.metrics if name not in episode.metrics]
        if missing and episode.status == DONE:
            raise MlgoError(
                f"{path}: expected the {' and '.join(missing)} of {episode.policy} on {episode.module}, got none; "
                "evaluate into another output"
            )
    return result
