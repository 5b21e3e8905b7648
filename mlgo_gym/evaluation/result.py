"""Results of an evaluation: the statistics of its policies, and the folder on disk."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

from mlgo_clang.files import read_untrusted
from mlgo_gym.cache import parse_json, write_atomically
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.record import DONE, FAILED, NO_DECISIONS, UNKNOWN, Configuration, EpisodeRecord, ModuleFacts
from mlgo_gym.evaluation.statistics import DEFAULT, LOADED, TEXT, Change, Summary
from mlgo_gym.evaluation.table import Table, certainty, overview
from mlgo_gym.identity import refuse_other_identity
from mlgo_gym.storage.json_files import JsonLines, read_json_lines, remove_unfinished


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Results of an evaluation: one episode per policy and module, and facts about the modules by name.

    Statistics are over the modules of `compared`, and of `only` unless it is None.
    """

    configuration: Configuration
    episodes: tuple[EpisodeRecord, ...]
    modules: Mapping[str, ModuleFacts] = field(default_factory=dict)
    only: frozenset[str] | None = None

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
    def projects_by_module(self) -> dict[str, str]:
        """Project of each module with a result."""
        return {episode.module: episode.project for episode in self.episodes}

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
    def decided(self) -> list[EpisodeRecord]:
        """The episodes of modules with decisions."""
        excluded = set(self.without_decisions)
        return [episode for episode in self.episodes if episode.module not in excluded]

    @property
    def compared(self) -> frozenset[str]:
        """Names of the modules with decisions that every policy finished; a policy without any does not count."""
        finished = [names for names in self._finished.values() if names]
        common = frozenset[str]() if not finished else frozenset.intersection(*finished)
        return common if self.only is None else common & self.only

    @property
    def missing(self) -> dict[str, int]:
        """Number of modules that may have decisions, and that a policy has not finished, by policy; without zeros."""
        names = {*self.modules, *(episode.module for episode in self.episodes)}.difference(self.without_decisions)
        return {policy: len(names - done) for policy, done in self._finished.items() if names - done}

    @property
    def _finished(self) -> dict[str, frozenset[str]]:
        names: dict[str, set[str]] = {policy: set() for policy in self.policies}
        for episode in self.decided:
            if episode.status == DONE and episode.policy in names:
                names[episode.policy].add(episode.module)
        return {policy: frozenset(done) for policy, done in names.items()}

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
        compared = self.compared
        by_policy: dict[str, list[EpisodeRecord]] = {policy: [] for policy in self.policies}
        for episode in self.decided:
            if (
                episode.policy in by_policy
                and project in (None, episode.project)
                and (language is None or language == self.language(episode.module))
            ):
                by_policy[episode.policy].append(episode)
        return [self._summary(policy, episodes, compared) for policy, episodes in by_policy.items()]

    def _summary(self, policy: str, episodes: Sequence[EpisodeRecord], compared: frozenset[str]) -> Summary:
        done = [episode for episode in episodes if episode.status == DONE and episode.module in compared]
        done.sort(key=lambda episode: episode.module)
        projects, names = tuple(episode.project for episode in done), tuple(episode.module for episode in done)
        trained = self.trained_on(policy) & {*names}
        return Summary(
            policy,
            modules=len(done),
            failures=sum(episode.status == FAILED for episode in episodes),
            illegal_actions=sum(episode.illegal_actions for episode in episodes),
            seconds=math.fsum(episode.seconds for episode in episodes),
            policy_seconds=math.fsum(episode.policy_seconds for episode in episodes),
            decisions=sum(episode.decisions for episode in episodes if episode.policy_seconds),
            changes={
                metric: Change(tuple(episode.metrics[metric] for episode in done), projects, names, trained)
                for metric in dict.fromkeys((*self.metrics, LOADED))
                if all(metric in episode.metrics for episode in done)
            },
        )

    @property
    def pairs(self) -> list[tuple[str, str, Change]]:
        """Each policy, one that was named before it, and the change from the latter."""
        metric, projects, compared = self.metrics[0], self.projects_by_module, self.compared
        values = {
            policy: {name: value for name, value in self.values(policy, metric).items() if name in compared}
            for policy in self.policies
        }

        def change(first: str, second: str) -> Change:
            trained = self.trained_on(first) | self.trained_on(second)
            return Change.between(values[first], values[second], projects, trained)

        return [(first, second, change(first, second)) for first, second in combinations(reversed(self.policies), 2)]

    def trained_on(self, policy: str) -> frozenset[str]:
        """Return the evaluated modules that a policy was trained on."""
        return frozenset(self.configuration.trained_on.get(policy, ()))

    def values(self, policy: str, metric: str) -> dict[str, float]:
        """Return a policy's metric on each module that it finished and that has decisions."""
        return {
            episode.module: episode.metrics[metric][0]
            for episode in self.decided
            if episode.policy == policy and episode.status == DONE
        }

    def change(self, policy: str) -> float:
        """Return the relative change of the geometric mean of a policy against plain clang: -0.02 is 2 % less.

        Each project has equal weight. It is the number under `geo-mean` in the tables; `summaries()` has other
        metrics, sums and single projects.

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

    def tables(self) -> tuple[Table, Table]:
        """Return the sums of each policy, and its statistics with their intervals."""
        summaries = self.summaries()
        return overview(self.configuration, summaries), certainty(self.configuration.metric, summaries)

    def __str__(self) -> str:
        return "\n\n".join(table.as_text() for table in self.tables())


HEADER = "meta.json"
MODULES = "modules.jsonl"
EPISODES = "episodes.jsonl"
LINKS = "links.json"
PROGRAMS = "programs.json"

Line = TypeVar("Line")


def load_result(folder: str | Path) -> EvaluationResult:
    """Return the results in the output folder of an evaluation, finished or not, or in a file of `as_submission()`.

    Raises:
        MlgoError: There are no results, or they are damaged.
    """
    path = Path(folder)
    if path.is_file():
        result = _read_submission(path)
    else:
        result = EvaluationResult(read_configuration(path), tuple(read_episodes(path)), read_modules(path))
    for episode in result.episodes:
        missing = [name for name in result.metrics if name not in episode.metrics]
        if missing and episode.status == DONE:
            raise MlgoError(
                f"{path}: expected the {' and '.join(missing)} of {episode.policy} on {episode.module}, got none; "
                "evaluate into another output"
            )
    return result


def as_submission(result: EvaluationResult) -> dict[str, Any]:
    """Return results as one JSON object: settings, modules, and episodes with their actions, without empty values."""
    episodes = [
        {name: value for name, value in asdict(entry).items() if value or name == "metrics"}
        for entry in result.episodes
    ]
    modules = [asdict(facts) for facts in result.modules.values()]
    return {"configuration": result.configuration.to_json(), "modules": modules, "episodes": episodes}


def _read_submission(path: Path) -> EvaluationResult:
    try:
        data = parse_json(read_untrusted(path))
        modules = map(ModuleFacts.from_json, data["modules"])
        return EvaluationResult(
            Configuration.from_json(data["configuration"]),
            tuple(map(EpisodeRecord.from_json, data["episodes"])),
            {facts.module: facts for facts in modules},
        )
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise MlgoError(
            f"{path}: expected a submission, got another form ({error!r}); write it with `mlgo-gym report --submission`"
        ) from error


def load_results(paths: Sequence[Path]) -> dict[str, EvaluationResult]:
    """Return the results in several folders by name: the last parts of each path that distinguish it, mostly one.

    Raises `MlgoError` if a folder is named twice, has no results, or they are damaged.
    """
    resolved = [path.resolve() for path in paths]
    for path, full in zip(paths, resolved, strict=True):
        if resolved.count(full) > 1:
            raise MlgoError(f"expected each path once, got {str(path)!r} twice; name it once")
    length = 1
    while len({path.parts[-length:] for path in resolved}) < len(resolved):
        length += 1
    return {"/".join(path.parts[-length:]).lstrip("/"): load_result(path) for path in resolved}


def read_configuration(folder: Path) -> Configuration:
    """Return the configuration of the results in a folder; raise an MlgoError without a header of this form."""
    path = folder / HEADER
    try:
        return Configuration.from_json(parse_json(read_untrusted(path)))
    except FileNotFoundError:
        raise MlgoError(f"expected results in {folder}, got no {HEADER}; give the --output of `evaluate`") from None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise MlgoError(
            f"{path}: expected the header of results, got another form ({error!r}), perhaps of another version of "
            "mlgo-gym; choose another output"
        ) from error


def write_modules(folder: Path, modules: Iterable[ModuleFacts]) -> None:
    """Write facts about modules to `modules.jsonl`, one line each; an existing file is replaced."""
    lines = (json.dumps(asdict(module)) + "\n" for module in modules)
    write_atomically(folder / MODULES, "".join(lines).encode())


def read_modules(folder: Path) -> dict[str, ModuleFacts]:
    """Return the facts about modules by name; empty without `modules.jsonl`. Errors are those of `load_result()`."""
    lines = _parsed(folder / MODULES, ModuleFacts.from_json, "facts about modules", "evaluate again")
    return {facts.module: facts for facts in lines}


def read_episodes(folder: Path) -> list[EpisodeRecord]:
    """Return the last record of each policy and module, in the order in which they finished.

    An unfinished last line, which a killed process may leave, is ignored. Errors are those of `load_result()`.
    """
    records: dict[tuple[str, str], EpisodeRecord] = {}
    for record in _parsed(folder / EPISODES, EpisodeRecord.from_json, "a result", "delete it"):
        records.pop((record.policy, record.module), None)
        records[record.policy, record.module] = record
    return list(records.values())


def _parsed(path: Path, parse: Callable[[Any], Line], expected: str, remedy: str) -> Iterator[Line]:
    for number, value in read_json_lines(path):
        try:
            parsed = parse(value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MlgoError(
                f"{path}, line {number}: expected {expected}, got another form ({error!r}); {remedy}"
            ) from error
        yield parsed


class ResultFolder:
    """A folder of results to which this process alone adds.

    Its `configuration` is the given one with the policies of earlier results. Raises `MlgoError` if the folder has
    results of another configuration, is in use by another process, or is damaged.
    """

    def __init__(self, path: Path, configuration: Configuration) -> None:
        self.path = path
        self._lines = JsonLines(path / EPISODES)
        try:
            remove_unfinished(path)
            self.configuration = self._merge(path, configuration)
        except BaseException:
            self._lines.close()
            raise

    @staticmethod
    def _merge(path: Path, configuration: Configuration) -> Configuration:
        policies: Mapping[str, str] = configuration.policies
        trained_on = configuration.trained_on
        if (path / HEADER).exists():
            recorded = read_configuration(path)
            refuse_other_identity(path, recorded.identity, configuration.identity)
            policies = {**recorded.policies, **policies}
            trained_on = {**recorded.trained_on, **trained_on}
        elif (path / EPISODES).stat().st_size:
            raise MlgoError(f"{path} has {EPISODES} but no {HEADER}; choose another output, or delete that folder")
        merged = replace(configuration, policies=policies, trained_on=trained_on)
        write_atomically(path / HEADER, (json.dumps(merged.to_json(), indent=2) + "\n").encode())
        return merged

    def append(self, record: EpisodeRecord) -> None:
        """Write a record; it is on disk on return."""
        self._lines.append(asdict(record))

    def write_rows(self, name: str, rows: Iterable[Any]) -> None:
        """Write dataclasses as `LINKS` or `PROGRAMS`; an existing file is replaced."""
        write_atomically(self.path / name, (json.dumps([asdict(row) for row in rows], indent=1) + "\n").encode())

    def close(self) -> None:
        """Release the folder. Idempotent."""
        self._lines.close()
