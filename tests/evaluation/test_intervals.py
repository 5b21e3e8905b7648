"""Intervals of changes over projects; scipy is the oracle."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.intervals import coverage
from mlgo_gym.evaluation.statistics import Change, t_quantile
from mlgo_gym.evaluation.table import change_and_projects

SIZES = tuple((int(size), 100) for size in np.random.default_rng(3).integers(60, 130, 60))


def of_projects(*counts: int) -> Change:
    """Return a change of modules, of which so many are of each project."""
    projects = tuple(f"p{number}" for number, count in enumerate(counts) for _ in range(count))
    return Change(SIZES[: len(projects)], projects)


@pytest.mark.parametrize("counts", [(1,) * 60, (40, 1, 1, 1), (5, 6, 7, 8, 9), (1, 2, 3, 30)])
def test_the_interval_is_scipys_t_interval_of_the_means_of_the_projects(counts: tuple[int, ...]) -> None:
    change = of_projects(*counts)
    logarithms = np.split(np.asarray(change.logarithms), np.cumsum(counts)[:-1])
    means = [part.mean() for part in logarithms]
    theirs = stats.t.interval(0.95, len(means) - 1, np.mean(means), stats.sem(means))
    assert change.mean == pytest.approx(np.expm1(np.mean(means)))
    assert change.estimate.interval == pytest.approx(np.expm1(theirs), rel=0.01)


def test_quantiles_miss_one_term_of_the_expansion() -> None:
    freedoms = np.array([3, 4, 6, 9, 20, 40, 100])
    missing = (stats.t.ppf(0.975, freedoms) - [t_quantile(freedom) for freedom in freedoms.tolist()]) * freedoms**5.0
    assert 0.73 < missing.min() < missing.max() < 0.94


def test_intervals_contain_the_true_change_where_a_bootstrap_misses_it() -> None:
    found = coverage((30, 9, 4, 2, 1, 1), "normal", 250)
    assert found["t"] >= 0.93 > found["bootstrap"]


def test_there_is_no_interval_where_none_is_honest_and_the_table_says_why() -> None:
    three, four, single = of_projects(20, 20, 20), of_projects(15, 15, 15, 15), of_projects(60)
    assert four.estimate.interval is not None
    equal = Change(((90, 100),) * 8, tuple("aabbccdd"))
    for change, projects, reason in (
        (three, "3", "modules only"),
        (single, "1", "modules only"),
        (equal, "4", "equal"),
    ):
        assert change.estimate.interval is None
        text, count = change_and_projects(change)
        assert (text.endswith(reason), "[" in text, count) == (True, False, projects)
    assert Change(()).estimate.value == 0


def test_means_exclude_modules_of_the_training_and_sums_do_not() -> None:
    clusters, modules = ("a", "a", "b", "c", "d", "e"), tuple("uvwxyz")
    pairs = ((50, 100), (90, 100), (80, 100), (90, 100), (95, 100), (70, 100))
    change = Change(pairs, clusters, modules)
    for trained in modules:
        unseen = [index for index, name in enumerate(modules) if name != trained]
        rest = Change(
            tuple(pairs[index] for index in unseen),
            tuple(clusters[index] for index in unseen),
            tuple(modules[index] for index in unseen),
        )
        partly = Change(pairs, clusters, modules, frozenset(trained))
        assert (partly.estimate, partly.projects) == (rest.estimate, rest.projects)
        assert (partly.total, partly.better) == (change.total, change.better)
        assert partly.to_json()["trained"] == 1
        assert "not 1 of the training" in change_and_projects(partly)[0]
    everything = Change(pairs, clusters, modules, frozenset(modules))
    assert (everything.mean, everything.estimate.interval) == (change.mean, None)
    assert "all of the training" in change_and_projects(everything)[0]
