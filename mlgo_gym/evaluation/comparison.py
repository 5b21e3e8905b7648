"""Compares policies of several evaluations on the same modules."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.record import DONE
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.statistics import Change
from mlgo_gym.evaluation.table import (
    Table,
    change_and_projects,
    count,
    extremes_table,
    number,
    percent,
    short,
    with_unit,
)
from mlgo_gym.identity import effective_arguments

_POLICY_INPUTS = frozenset({"callee_features", "credit", "error_reward", "info", "observation", "reward", "strict"})
"""Arguments of environments that change a policy's input, but not the size that a sequence of actions gives."""

_MAX_LISTED = 5
"""Number of modules in a message."""

_MAX_NAME = 32
"""Characters of a policy's name in a table."""


class EvaluatedPolicy(NamedTuple):
    """A policy in one of several evaluations, with the name of the evaluation."""

    run: str
    policy: str


@dataclass(frozen=True)
class Comparison:
    """Changes from the first evaluation to the others.

    Attributes:
        metric: The compared metric.
        runs: Evaluations by name; the first is the reference.
        pairs: Later policy, policy of the first evaluation, and the change from the latter to the former.
        notes: Other differences between the evaluations, and exclusions.
    """

    metric: str
    runs: Mapping[str, EvaluationResult]
    pairs: tuple[tuple[EvaluatedPolicy, EvaluatedPolicy, Change], ...]
    notes: tuple[str, ...]

    def tables(self) -> list[Table]:
        """Return a table of the pairs, and the largest changes of each."""
        rows, modules = [], []
        for later, before, pair in self.pairs:
            name = self._name(later, before)
            sums = str(len(pair.pairs)), number(pair.baseline), number(pair.value), percent(pair.total)
            counts = map(str, (pair.better, pair.equal, pair.worse))
            rows.append((name, *sums, *counts, *change_and_projects(pair), f"{pair.probability:.0%}"))
            for title, extremes in zip(("Smaller", "Larger"), pair.extremes(), strict=True):
                if extremes:
                    modules.append(extremes_table(f"{title} now: {name}", extremes, self.metric, "before"))
        first, *later_runs = self.runs
        columns = ("policy", "modules", "before", with_unit(self.metric), "total", "better", "equal", "worse")
        title = (
            f"{', '.join(later_runs)} against {first}: {self.metric}; geo-mean in % with 95 % interval over projects"
        )
        return [Table(title, (*columns, "geo-mean", "projects", "smaller"), tuple(rows)), *modules]

    def _name(self, later: EvaluatedPolicy, before: EvaluatedPolicy) -> str:
        run = f" of {short(later.run, 16)}" if len(self.runs) > 2 else ""
        if later.policy == before.policy:
            return short(later.policy, _MAX_NAME) + run
        return f"{short(later.policy, _MAX_NAME // 2)}{run} / {short(before.policy, _MAX_NAME // 2)}"

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        return {
            "metric": self.metric,
            "runs": {name: result.configuration.to_json() for name, result in self.runs.items()},
            "pairs": [
                {"first": later._asdict(), "second": before._asdict()} | pair.comparison_json() | pair.extremes_json()
                for later, before, pair in self.pairs
            ],
            "notes": list(self.notes),
        }


def compare(runs: Mapping[str, EvaluationResult]) -> Comparison:
    """Compare the first evaluation with each of the others.

    Policies of equal names are compared. If two evaluations share no name, each policy of the later one is compared
    with each policy of the first. All are compared on the modules that all of them finished.

    Raises:
        MlgoError: There are fewer than two evaluations, two differ in environment, metric, compiler, modules, flags or
            baselines, or they finished no common module.
    """
    if len(runs) < 2:
        raise MlgoError(f"expected two or more evaluations, got {len(runs)}; name the --output of each")
    first, *later_runs = runs.items()
    metric = first[1].configuration.metric
    pairs: list[tuple[EvaluatedPolicy, EvaluatedPolicy]] = []
    notes: list[str] = []
    for run in later_runs:
        for difference in differences(first[1], run[1]):
            raise MlgoError(
                f"{first[0]} and {run[0]} cannot be compared: {difference}; evaluate both on the same modules with "
                "the same compiler and flags"
            )
        notes += _notes(first, run)
        shared = [(name, name) for name in run[1].policies if name in first[1].policies]
        for later, before in shared or product(run[1].policies, first[1].policies):
            pairs.append((EvaluatedPolicy(run[0], later), EvaluatedPolicy(first[0], before)))
    values = {policy: runs[policy.run].values(policy.policy, metric) for pair in pairs for policy in pair}
    finished = [measured.keys() for measured in values.values() if measured]
    common = set(finished[0]).intersection(*finished) if finished else set[str]()
    if not common:
        raise MlgoError("expected modules that all evaluations finished, got none; continue the evaluations")
    for policy, measured in values.items():
        if missing := runs[policy.run].missing.get(policy.policy, 0):
            notes.append(
                f"{policy.policy} in {policy.run} lacks {count(missing, 'module')}: compared on {len(common)}"
                if measured
                else f"{policy.policy} in {policy.run} finished no module"
            )
    values = {
        policy: {name: measured[name] for name in measured.keys() & common} for policy, measured in values.items()
    }
    projects = {name: project for result in runs.values() for name, project in result.projects_by_module.items()}
    trained = {policy: runs[policy.run].trained_on(policy.policy) for policy in values}
    changes = (
        (later, before, Change.between(values[later], values[before], projects, trained[later] | trained[before]))
        for later, before in pairs
    )
    return Comparison(metric, runs, tuple(row for row in changes if row[2].pairs), tuple(notes))


def on_common_modules(results: Mapping[str, EvaluationResult]) -> dict[str, EvaluationResult]:
    """Return results with statistics over the modules that every result of the same modules has."""
    common: dict[str, frozenset[str]] = {}
    for result in results.values():
        digest = result.configuration.modules_digest
        common[digest] = result.compared & common.get(digest, result.compared)
    return {name: replace(result, only=common[result.configuration.modules_digest]) for name, result in results.items()}


def _notes(first: tuple[str, EvaluationResult], later_run: tuple[str, EvaluationResult]) -> list[str]:
    """Return the differences between two evaluations that do not prevent a comparison."""
    before, later = first[1], later_run[1]
    lines = []
    for name in ("mlgo_gym", "seed"):
        values = getattr(before.configuration, name), getattr(later.configuration, name)
        if values[0] != values[1]:
            lines.append(f"{name}: {values[0]} in {first[0]}, {values[1]} in {later_run[0]}")
    identities = before.configuration.policies, later.configuration.policies
    shared = [name for name in later.policies if name in before.policies]
    lines += [
        f"{name} is another policy in {later_run[0]}: {identities[1][name]}, was {identities[0][name]}"
        for name in shared
        if identities[0][name] != identities[1][name]
    ]
    for run, result in (first, later_run):
        single = [name for name in result.policies if name not in shared]
        lines += [f"only in {run}: {', '.join(single)}"] if shared and single else []
    return lines


def differences(first: EvaluationResult, second: EvaluationResult) -> Iterator[str]:
    """Yield the reasons why two evaluations cannot be compared."""
    before, after = first.configuration, second.configuration
    for name in ("environment", "metric", "clang"):
        ours, theirs = getattr(before, name), getattr(after, name)
        if ours != theirs:
            yield f"{name} is {ours} in the first and {theirs} in the second"
    arguments = effective_arguments(before.arguments), effective_arguments(after.arguments)
    for name in sorted({*arguments[0], *arguments[1]} - _POLICY_INPUTS):
        ours, theirs = (values.get(name) for values in arguments)
        if ours != theirs:
            yield f"the argument {name} is {ours!r} in the first and {theirs!r} in the second"
    if before.modules_digest != after.modules_digest:
        names = sorted({*first.modules, *second.modules})
        differing = [name for name in names if first.modules.get(name) != second.modules.get(name)]
        listed = ", ".join(differing[:_MAX_LISTED]) or "files of their flags"
        yield f"the modules have other contents or flags: {listed}"
    # Another baseline points to a difference that no configuration records.
    metric = before.metric
    baselines = _baselines(first, metric)
    for name, value in _baselines(second, metric).items():
        if baselines.get(name, value) != value:
            yield f"plain clang's {metric} of {name} is {baselines[name]:g} in the first and {value:g} in the second"


def _baselines(result: EvaluationResult, metric: str) -> dict[str, float]:
    return {episode.module: episode.metrics[metric][1] for episode in result.episodes if episode.status == DONE}
