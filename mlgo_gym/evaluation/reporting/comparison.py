"""Compares evaluations, policy by policy on the same modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.number_format import change, count, number, percent, probability, short, with_unit
from mlgo_gym.evaluation.pairs import Pair, pair_of
from mlgo_gym.evaluation.report import extremes_data
from mlgo_gym.evaluation.reporting.comparability import check_comparable
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.summary import extremes
from mlgo_gym.evaluation.table import Table
from mlgo_gym.evaluation.tables import extremes_table

_MAX_NAME = 32
"""Characters of a policy's name in a table."""

NamedResult = tuple[str, EvaluationResult]


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
        pairs: Later policy, policy of the first evaluation, and the comparison of both.
        notes: Other differences between the evaluations, and exclusions.
    """

    metric: str
    runs: Mapping[str, EvaluationResult]
    pairs: tuple[tuple[EvaluatedPolicy, EvaluatedPolicy, Pair], ...]
    notes: tuple[str, ...]

    def tables(self) -> list[Table]:
        """Return a table of sums, a table of statistics, and the largest changes of each pair."""
        sums, statistics, modules = [], [], []
        for later, before, pair in self.pairs:
            counts = (pair.change.better, pair.change.equal, pair.change.worse)
            name = self._name(later, before)
            totals = (number(pair.change.baseline), number(pair.change.value), percent(pair.change.total))
            sums.append((name, str(len(pair.modules)), *totals, *map(str, counts)))
            found = pair.estimates
            statistics.append((name, change(found.total), change(found.mean), probability(pair.probability)))
            for title, rows in zip(("Smaller", "Larger"), extremes(pair.modules, pair.change), strict=True):
                if rows:
                    modules.append(extremes_table(f"{title} now: {name}", rows, self.metric, "before"))
        first, *others = self.runs
        columns = ("policy", "modules", "before", with_unit(self.metric), "total", "better", "equal", "worse")
        return [
            Table(f"{', '.join(others)} against {first}: {self.metric}", columns, tuple(sums)),
            Table(
                "Change in %, and probability of a smaller module (a tie counts half), with 95 % intervals",
                ("policy", "total", "geo-mean", "smaller"),
                tuple(statistics),
            ),
            *modules,
        ]

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
                pair.to_json()
                | {"first": later._asdict(), "second": before._asdict()}
                | extremes_data(pair.modules, pair.change)
                for later, before, pair in self.pairs
            ],
            "notes": list(self.notes),
        }


def compare(runs: Mapping[str, EvaluationResult]) -> Comparison:
    """Compare the first evaluation with each of the others.

    Policies of equal names are compared. If two evaluations share no name, each policy of the later one is compared
    with each policy of the first.

    Raises:
        MlgoError: There are fewer than two evaluations, two cannot be compared, or they finished no common module.
    """
    if len(runs) < 2:
        raise MlgoError(f"expected two or more evaluations, got {len(runs)}; name the --output of each")
    first, *others = runs.items()
    pairs: list[tuple[EvaluatedPolicy, EvaluatedPolicy, Pair]] = []
    notes: list[str] = []
    for other in others:
        check_comparable(first, other)
        notes += _notes(first, other)
        shared = [(name, name) for name in other[1].policies if name in first[1].policies]
        found = [_pair(first, other, *names) for names in shared or product(other[1].policies, first[1].policies)]
        pairs += [each for each in found if each[2].modules]
    if not pairs:
        raise MlgoError("expected modules that both evaluations finished, got none; continue the evaluations")
    return Comparison(first[1].configuration.metric, runs, tuple(pairs), tuple(notes))


def _pair(
    first: NamedResult, other: NamedResult, later_policy: str, earlier_policy: str
) -> tuple[EvaluatedPolicy, EvaluatedPolicy, Pair]:
    metric = first[1].configuration.metric
    values = other[1].values(later_policy, metric), first[1].values(earlier_policy, metric)
    projects = {each.module: each.project for each in (*first[1].episodes, *other[1].episodes)}
    later, before = EvaluatedPolicy(other[0], later_policy), EvaluatedPolicy(first[0], earlier_policy)
    return later, before, pair_of(later_policy, earlier_policy, values, projects)


def _notes(first: NamedResult, other: NamedResult) -> list[str]:
    """Return the differences between two evaluations that do not prevent a comparison."""
    before, later = first[1], other[1]
    lines = []
    for name in ("mlgo_gym", "seed"):
        values = getattr(before.configuration, name), getattr(later.configuration, name)
        if values[0] != values[1]:
            lines.append(f"{name}: {values[0]} in {first[0]}, {values[1]} in {other[0]}")
    identities = before.configuration.policies, later.configuration.policies
    shared = [name for name in later.policies if name in before.policies]
    lines += [
        f"{name} is another policy in {other[0]}: {identities[1][name]}, was {identities[0][name]}"
        for name in shared
        if identities[0][name] != identities[1][name]
    ]
    for run, result in (first, other):
        single = [name for name in result.policies if name not in shared]
        lines += [f"only in {run}: {', '.join(single)}"] if shared and single else []
    for run, result in (first, other):
        if result.failures:
            lines.append(f"{run}: {count(len(result.failures), 'failed episode')} excluded")
    return lines
