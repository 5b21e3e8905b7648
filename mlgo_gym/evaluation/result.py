"""The results of an evaluation, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.episode_result import DONE, FAILED, EpisodeResult
from mlgo_gym.evaluation.module_facts import UNKNOWN, ModuleFacts, read_modules
from mlgo_gym.evaluation.pairs import Pair, pair_of
from mlgo_gym.evaluation.report import as_text
from mlgo_gym.evaluation.result_folder import read_configuration, read_episodes
from mlgo_gym.evaluation.summary import TEXT, Summary, summarize, without_decisions


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The results of an evaluation.

    Attributes:
        configuration: what they depend on.
        episodes: one result for each policy and module.
        modules: what is known of the modules, by name; nothing of what an older release has evaluated.
    """

    configuration: Configuration
    episodes: tuple[EpisodeResult, ...]
    modules: Mapping[str, ModuleFacts] = field(default_factory=dict)

    @property
    def measures(self) -> tuple[str, ...]:
        """The measure that counts, and the size of the instructions where that is another."""
        return tuple(dict.fromkeys((self.configuration.metric, TEXT)))

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of the policies of which there are results, in the order they were given."""
        there = {episode.policy for episode in self.episodes}
        return tuple(name for name in self.configuration.policies if name in there)

    @property
    def projects(self) -> tuple[str, ...]:
        """The names of the projects, sorted."""
        return tuple(sorted({episode.project for episode in self.episodes}))

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that the modules were written in, sorted; `unknown` for those that do not say."""
        return tuple(sorted({self.language(episode.module) for episode in self.episodes}))

    def language(self, module: str) -> str:
        """Return the language that a module was written in, or `unknown`."""
        facts = self.modules.get(module)
        return UNKNOWN if facts is None else facts.language

    @property
    def without_decisions(self) -> list[str]:
        """The modules in which there is nothing to decide; they are in no sum."""
        return without_decisions(self.episodes)

    @property
    def failures(self) -> list[EpisodeResult]:
        """The episodes in which something went wrong."""
        return [episode for episode in self.episodes if episode.status == FAILED]

    @property
    def deviations(self) -> list[EpisodeResult]:
        """The episodes of the policy `default` that did not end as plain clang does."""
        return [
            episode
            for episode in self.episodes
            if episode.policy == "default"
            and episode.status == DONE
            and any(len(set(episode.measures[name])) > 1 for name in self.measures)
        ]

    def summaries(self, project: str | None = None, *, language: str | None = None) -> list[Summary]:
        """Return what the episodes of each policy add up to, in all, or in one project or language."""
        chosen: Iterable[EpisodeResult] = (
            episode
            for episode in self.episodes
            if project in (None, episode.project) and (language is None or language == self.language(episode.module))
        )
        chosen = tuple(chosen)
        return [summarize(policy, chosen, self.measures) for policy in self.policies]

    def pair(self, first: str, second: str, measure: str | None = None) -> Pair:
        """Return one policy against another, on the modules that both finished.

        Args:
            first: the name of the one.
            second: the name of the other.
            measure: what is compared, one of `measures`; by default the one that counts.
        """
        name = measure or self.measures[0]
        ours, theirs = (self.values(policy, name) for policy in (first, second))
        return pair_of(first, second, (ours, theirs), {each.module: each.project for each in self.episodes})

    def values(self, policy: str, measure: str) -> dict[str, float]:
        """Return what a policy came to on each module that it finished and in which there is something to decide."""
        empty = set(self.without_decisions)
        return {
            each.module: each.measures[measure][0]
            for each in self.episodes
            if each.policy == policy and each.status == DONE and each.module not in empty
        }

    def change(self, policy: str, *, measure: str | None = None, project: str | None = None) -> float:
        """Return how a policy compares with plain clang in one number: -0.02 is 2 % less.

        It is the relative change of the geometric mean over the modules in which there is something to decide, the
        number that the tables show as mean; `summaries()` has the sums, the counts and each module's pair.

        Args:
            policy: its name.
            measure: what is compared, one of `measures`; by default the one that counts, the first.
            project: compare the modules of this project alone.

        Raises:
            MlgoError: there are no results of that policy, measure or project, or no module that it finished.
        """
        measure = self.measures[0] if measure is None else measure
        for what, name, known in (
            ("policy", policy, self.policies),
            ("measure", measure, self.measures),
            ("project", project, (None, *self.projects)),
        ):
            if name not in known:
                raise MlgoError(
                    f"there are no results of the {what} {name!r}; there are of {', '.join(map(str, known))}"
                )
        (summary,) = (each for each in self.summaries(project) if each.policy == policy)
        if not summary.modules:
            raise MlgoError(f"{policy} finished no module in which there is something to decide; look at `failures`")
        return summary.changes[measure].mean

    def __str__(self) -> str:
        return as_text(self)


def load_result(folder: str | Path) -> EvaluationResult:
    """Return the results in the output folder of an evaluation, also while it is being made.

    Raises:
        MlgoError: there are none, or they are damaged.
    """
    path = Path(folder)
    result = EvaluationResult(read_configuration(path), tuple(read_episodes(path)), read_modules(path))
    for episode in result.episodes:
        missing = [name for name in result.measures if name not in episode.measures]
        if missing and episode.status == DONE:
            raise MlgoError(
                f"{path} was to have the {' and '.join(missing)} of {episode.policy} on {episode.module}, and has not; "
                "evaluate it again"
            )
    return result
