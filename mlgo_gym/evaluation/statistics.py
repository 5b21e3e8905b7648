"""Changes of a metric over modules: sums, means, and t intervals over projects, paired by module."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MIN_PROJECTS = 4
"""Smallest number of projects with an interval: with fewer it is too wide to be of use."""

TEXT = "text"
"""The metric that every evaluation shows: the bytes of the executable sections."""

LOADED = "loaded"
"""The bytes in memory, which tables show beside the metric: less code can be more data."""

DEFAULT = "default"
"""The policy that takes clang's own decisions."""

EXTREMES = 10
"""Length of a list of the largest changes."""

_ROUNDING = 1e-12
"""Standard deviation of equal projects, at most: their means differ by rounding."""

_NORMAL = 1.959963984540054
"""97.5 % quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over projects, and the ends of its 95 % interval.

    The ends are None for fewer than `MIN_PROJECTS` projects, and where all projects have the same value.
    """

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends; None without an interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @classmethod
    def of(cls, projects: Floats) -> "Estimate":
        """Return the mean of one value per project with its t interval.

        The interval describes a new project, and covers it also if projects are few or differ in size. A bootstrap
        over projects does not: docs/how_to/evaluate.md has the measured coverage of both.
        """
        count = len(projects)
        value = float(projects.mean()) if count else 0.0
        deviation = float(projects.std(ddof=1)) if count >= MIN_PROJECTS else 0.0
        if deviation < _ROUNDING:
            return cls(value)
        margin = t_quantile(count - 1) * deviation / math.sqrt(count)
        return cls(value, value - margin, value + margin)


def t_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t for degrees of freedom (≥ 3), within 0.2 %.

    It is the expansion 26.7.5 of Abramowitz and Stegun, which needs no further library.
    """
    x = _NORMAL
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + math.fsum(term / freedom**power for power, term in enumerate(terms, 1))


class Extreme(NamedTuple):
    """A module with one of the largest changes, its value and its baseline."""

    module: str
    value: float
    baseline: float

    @property
    def change(self) -> float:
        """Relative change: -0.02 is 2 % less."""
        return (1.0 + self.value) / (1.0 + self.baseline) - 1.0


@dataclass(frozen=True, slots=True)
class Change:
    """A metric against its baseline, module by module; smaller is better.

    Attributes:
        pairs: Value and baseline of each module.
        clusters: Project of each module; each project has the same weight in means. Default: one project per module.
        modules: Names of the modules. Default: their indices.
        trained: Names of those that the policy was trained on. Means and intervals exclude them; sums and counts do
            not. If it was trained on all, the means are over all, without an interval.
    """

    pairs: tuple[tuple[float, float], ...]
    clusters: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    trained: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in ("clusters", "modules"):
            if not getattr(self, name):
                object.__setattr__(self, name, tuple(map(str, range(len(self.pairs)))))

    @classmethod
    def between(
        cls,
        values: Mapping[str, float],
        baselines: Mapping[str, float],
        projects: Mapping[str, str],
        trained: Iterable[str] = (),
    ) -> "Change":
        """Return the change from one policy to another by their metric of each module, over the modules of both.

        Either policy was trained on the modules `trained`.
        """
        modules = tuple(sorted(values.keys() & baselines.keys()))
        pairs = tuple((values[name], baselines[name]) for name in modules)
        return cls(pairs, tuple(projects[name] for name in modules), modules, frozenset(trained) & {*modules})

    @property
    def value(self) -> float:
        """Sum of the values."""
        return sum(value for value, _ in self.pairs)

    @property
    def baseline(self) -> float:
        """Sum of the baselines."""
        return sum(baseline for _, baseline in self.pairs)

    @property
    def total(self) -> float:
        """Relative change of the sum: -0.02 is 2 % less; infinite if only the baselines add up to 0."""
        if not self.baseline:
            return math.inf if self.value else 0.0
        return self.value / self.baseline - 1.0

    @property
    def logarithms(self) -> tuple[float, ...]:
        """`log((1 + value) / (1 + baseline))` of each module; the ones keep it finite for a cost of 0."""
        return tuple(math.log((1.0 + value) / (1.0 + baseline)) for value, baseline in self.pairs)

    @property
    def _unseen(self) -> npt.NDArray[np.bool_]:
        """Which modules means are over, bool of shape (modules,)."""
        unseen = np.array([name not in self.trained for name in self.modules], bool)
        return unseen if unseen.any() else ~unseen

    @property
    def projects(self) -> int:
        """Number of projects that means are over."""
        return len(set(np.asarray(self.clusters, np.object_)[self._unseen]))

    @property
    def estimate(self) -> Estimate:
        """Relative change of the geometric mean, each project with the same weight: -0.02 is 2 % less."""
        found = Estimate.of(self._project_means(self.logarithms))
        interval = None if self.trained and len(self.trained) == len(self.pairs) else found.interval
        ends = () if interval is None else map(math.expm1, interval)
        return Estimate(math.expm1(found.value), *ends)

    @property
    def mean(self) -> float:
        """The value of `estimate`."""
        return self.estimate.value

    def _project_means(self, values: Sequence[float]) -> Floats:
        """Return the mean of one value per module over the modules of each project, of shape (projects,)."""
        unseen = self._unseen
        _, numbers = np.unique(np.asarray(self.clusters, dtype=np.str_)[unseen], return_inverse=True)
        means: Floats = np.bincount(numbers, np.asarray(values, float)[unseen]) / np.bincount(numbers)
        return means

    @property
    def better(self) -> int:
        """Number of modules with a value below the baseline."""
        return sum(value < baseline for value, baseline in self.pairs)

    @property
    def worse(self) -> int:
        """Number of modules with a value above the baseline."""
        return sum(value > baseline for value, baseline in self.pairs)

    @property
    def equal(self) -> int:
        """Number of modules with the value of the baseline."""
        return len(self.pairs) - self.better - self.worse

    @property
    def probability(self) -> float:
        """Probability that the value is smaller on a module of a project drawn at random; a tie counts half.

        It is the probability of improvement of Agarwal et al. 2021: the Mann-Whitney statistic of the runs of each
        task, averaged over tasks. A module corresponds to a task with one run, because a compile is deterministic.
        """
        wins = [(value < baseline) + 0.5 * (value == baseline) for value, baseline in self.pairs]
        return Estimate.of(self._project_means(wins)).value

    def extremes(self) -> tuple[list[Extreme], list[Extreme]]:
        """Return the modules with the largest relative reductions, and those with the largest increases."""
        rows = [Extreme(name, *pair) for name, pair in zip(self.modules, self.pairs, strict=True)]
        rows.sort(key=lambda row: (-abs(row.change), row.module))
        smaller = [row for row in rows if row.value < row.baseline]
        return smaller[:EXTREMES], [row for row in rows if row.value > row.baseline][:EXTREMES]

    def to_json(self) -> dict[str, Any]:
        """Return sums, counts and the mean with its interval as JSON-able data."""
        names = ("value", "baseline", "better", "worse", "equal", "projects")
        total = self.total if math.isfinite(self.total) else None  # JSON has no infinity
        values = {name: getattr(self, name) for name in names} | {"trained": len(self.trained)}
        return {**values, "total": total, "mean": asdict(self.estimate)}

    def comparison_json(self) -> dict[str, Any]:
        """Return `to_json()` with the number of modules and the probability, for the change between two policies."""
        return {"modules": len(self.pairs), "probability": self.probability, **self.to_json()}

    def extremes_json(self) -> dict[str, Any]:
        """Return the largest changes as JSON-able data, by `best` and `worst`."""
        named = zip(("best", "worst"), self.extremes(), strict=True)
        return {name: [{**row._asdict(), "change": row.change} for row in rows] for name, rows in named}


@dataclass(frozen=True, slots=True)
class Summary:
    """The episodes of a policy on modules with decisions.

    Attributes:
        modules: Number of finished modules.
        seconds: Total duration of the episodes.
        policy_seconds: Total CPU time of the policy.
        decisions: Number of decisions that `policy_seconds` covers.
        changes: Change of the metric, of `text` and of `loaded` over the finished modules, by metric.
    """

    policy: str
    modules: int
    failures: int
    illegal_actions: int
    seconds: float
    policy_seconds: float
    decisions: int
    changes: dict[str, Change]
