"""What changed from one run to another: policies against policies, on the same modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.extremes import best, worst
from mlgo_gym.evaluation.pairs import Pair, pair_of
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.table import Table
from mlgo_gym.evaluation.tables import extremes_table
from mlgo_gym.evaluation.wording import change, count, number, percent, probability, short, unit
from mlgo_gym.reporting.comparability import check_comparable

_LONGEST = 32
"""The letters of a policy's name in a table."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A policy of a run.

    Attributes:
        run: what the run is called.
        policy: the policy's name in it.
    """

    run: str
    policy: str

    def __str__(self) -> str:
        return f"{self.policy} of {self.run}"


@dataclass(frozen=True)
class Comparison:
    """What changed from the first run to each other one.

    Attributes:
        metric: what is compared.
        runs: the runs, by what they are called; the first is what the others are compared with.
        pairs: which policy was compared with which: the later one, the one of the first run, and how they did.
        notes: what else differs between the runs, and what could not be compared.
    """

    metric: str
    runs: Mapping[str, EvaluationResult]
    pairs: tuple[tuple[Contestant, Contestant, Pair], ...]
    notes: tuple[str, ...]

    def tables(self) -> list[Table]:
        """Return a row for each pair, twice, and for each pair which modules changed most."""
        sizes, sure, modules = [], [], []
        for later, before, pair in self.pairs:
            counts = (pair.change.better, pair.change.equal, pair.change.worse)
            name = self._name(later, before)
            totals = (number(pair.change.baseline), number(pair.change.value), percent(pair.change.total))
            sizes.append((name, str(len(pair.modules)), *totals, *map(str, counts)))
            found = pair.estimates
            sure.append((name, change(found.total), change(found.mean), probability(pair.probability)))
            rows = ((f"Smaller now: {name}", best), (f"Larger now: {name}", worst))
            for title, extremes in rows:
                if listed := extremes(pair.modules, pair.change):
                    modules.append(extremes_table(title, listed, self.metric, "before"))
        first, *others = self.runs
        columns = ("policy", "modules", "before", unit(self.metric), "total", "better", "equal", "worse")
        return [
            Table(f"{', '.join(others)} against {first}: {self.metric}", columns, tuple(sizes)),
            Table(
                "Change in %, and how likely a module is smaller now (a tie counts half), with 95 % intervals",
                ("policy", "total", "geo-mean", "smaller"),
                tuple(sure),
            ),
            *modules,
        ]

    def _name(self, later: Contestant, before: Contestant) -> str:
        run = f" of {short(later.run, 16)}" if len(self.runs) > 2 else ""
        if later.policy == before.policy:
            return short(later.policy, _LONGEST) + run
        return f"{short(later.policy, _LONGEST // 2)}{run} / {short(before.policy, _LONGEST // 2)}"

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        return {
            "metric": self.metric,
            "runs": {name: result.configuration.to_json() for name, result in self.runs.items()},
            "pairs": [
                {
                    **pair.to_json(),
                    "first": asdict(later),
                    "second": asdict(before),
                    "best": [each.to_json() for each in best(pair.modules, pair.change)],
                    "worst": [each.to_json() for each in worst(pair.modules, pair.change)],
                }
                for later, before, pair in self.pairs
            ],
            "notes": list(self.notes),
        }


def compare(runs: Mapping[str, EvaluationResult]) -> Comparison:
    """Return what changed from the first run to each other one.

    Policies of the same name are compared; where two runs share no name, each policy of the later one is compared with
    each of the first.

    Args:
        runs: at least two runs, by what they are called.

    Raises:
        MlgoError: there are fewer than two runs, or two that cannot be compared; the text names the first difference.
    """
    if len(runs) < 2:
        raise MlgoError(f"at least two runs are needed to compare, found {len(runs)}; name the --output of each")
    first, *others = runs.items()
    pairs: list[tuple[Contestant, Contestant, Pair]] = []
    notes: list[str] = []
    for other in others:
        check_comparable(first, other)
        notes += _notes(first, other)
        found = [_pair(first, other, *names) for names in _matches(first[1], other[1])]
        pairs += [each for each in found if each[2].modules]
    if not pairs:
        raise MlgoError("no module was finished by a policy of either run; let the evaluations go on")
    return Comparison(first[1].configuration.metric, runs, tuple(pairs), tuple(notes))


def _matches(first: EvaluationResult, other: EvaluationResult) -> list[tuple[str, str]]:
    shared = [name for name in other.policies if name in first.policies]
    return [(name, name) for name in shared] or [(now, was) for now in other.policies for was in first.policies]


def _pair(
    first: tuple[str, EvaluationResult], other: tuple[str, EvaluationResult], now: str, was: str
) -> tuple[Contestant, Contestant, Pair]:
    metric = first[1].configuration.metric
    values = other[1].values(now, metric), first[1].values(was, metric)
    projects = {each.module: each.project for each in (*first[1].episodes, *other[1].episodes)}
    later, before = Contestant(other[0], now), Contestant(first[0], was)
    return later, before, pair_of(str(later), str(before), values, projects)


def _notes(first: tuple[str, EvaluationResult], other: tuple[str, EvaluationResult]) -> list[str]:
    """Return what differs between two runs and does not keep them from being compared."""
    was, now = first[1], other[1]
    lines = [
        f"{name}: {getattr(was.configuration, name)} in {first[0]}, {getattr(now.configuration, name)} in {other[0]}"
        for name in ("mlgo_gym", "seed")
        if getattr(was.configuration, name) != getattr(now.configuration, name)
    ]
    identities = was.configuration.policies, now.configuration.policies
    shared = [name for name in now.policies if name in was.policies]
    lines += [
        f"{name} is another policy in {other[0]}: {identities[1][name]}, was {identities[0][name]}"
        for name in shared
        if identities[0][name] != identities[1][name]
    ]
    if shared:
        for run, names, known in ((first[0], was.policies, now.policies), (other[0], now.policies, was.policies)):
            alone = [name for name in names if name not in known]
            lines += [f"only in {run}: {', '.join(alone)}"] if alone else []
    for run, result in (first, other):
        if result.failures:
            lines.append(f"{run}: {count(len(result.failures), 'episode')} failed, and are not compared")
    return lines
