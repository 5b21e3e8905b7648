"""Intervals of changes; scipy is the oracle where it needs no clusters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mlgo_gym.evaluation.statistics import Change, estimates, profile, samples, trimmed_means

RANDOM = np.random.default_rng(3)
SIZES = tuple((int(size), 100) for size in RANDOM.integers(60, 130, 60))


def test_without_clusters_intervals_are_those_of_scipy_and_the_same_each_time() -> None:
    found = estimates(Change(SIZES))
    logarithms = np.asarray(Change(SIZES).logarithms)
    theirs = stats.bootstrap((logarithms,), np.mean, method="percentile", rng=1).confidence_interval
    assert found.mean.interval == pytest.approx(np.expm1([theirs.low, theirs.high]), abs=0.004)
    values, baselines = np.asarray(SIZES, float).T
    theirs = stats.bootstrap(
        (values, baselines), lambda a, b: a.sum() / b.sum() - 1, paired=True, vectorized=False, method="percentile",
        n_resamples=3000, rng=1,
    ).confidence_interval  # fmt: skip
    assert found.total.interval == pytest.approx((theirs.low, theirs.high), abs=0.004)
    estimates.cache_clear()
    assert estimates(Change(SIZES)) == found


def test_the_middle_half_is_that_of_scipys_trimmed_mean() -> None:
    for count in (2, 3, 4, 5, 7, 8, 60):
        logarithms = np.asarray(Change(SIZES[:count]).logarithms)
        counts = RANDOM.multinomial(count, np.full(count, 1 / count), size=5)
        theirs = [stats.trim_mean(np.repeat(logarithms, row), 0.25) for row in counts]
        assert trimmed_means(logarithms, counts) == pytest.approx(np.asarray(theirs))
    found = estimates(Change((*((98, 100),) * 9, (0, 100_000))))  # one module vanishes
    assert found.mean.value < -0.6
    assert found.interquartile.value == pytest.approx(99 / 101 - 1)


def test_projects_are_drawn_and_then_their_modules() -> None:
    clusters = ("a",) * 3 + ("b",) * 5 + ("c",)
    counts = np.concatenate(list(samples(clusters)))
    by_project = np.stack([counts[:, :3].sum(axis=1) / 3, counts[:, 3:8].sum(axis=1) / 5, counts[:, 8]], axis=1)
    assert np.array_equal(by_project, np.round(by_project))
    assert np.all(by_project.sum(axis=1) == 3)
    assert counts.mean(axis=0) == pytest.approx(np.ones(9), abs=0.1)
    # Modules of one project that change alike make the interval wider.
    pairs = ((90, 100),) * 40 + ((100, 100),) * 40
    alone = estimates(Change(pairs)).mean
    together = estimates(Change(pairs, tuple(f"p{number // 20}" for number in range(80)))).mean
    assert alone.low is not None
    assert together.low == pytest.approx(-0.099, abs=1e-3)
    assert -0.065 < alone.low < alone.value == together.value


def test_special_cases_have_exact_intervals() -> None:
    # Sizes differ a thousandfold between modules, and each is 1 % smaller.
    total = estimates(Change(tuple((99 * 10**power, 100 * 10**power) for power in range(3, 7)))).total
    assert total.interval == pytest.approx((-0.01, -0.01))
    assert estimates(Change(((90, 100),))).mean.interval is None
    assert estimates(Change(())).total.interval is None
    assert estimates(Change(((100, 100),) * 5)).mean.interval == (0, 0)
    assert estimates(Change(((0, 0),) * 3)).total.value == 0


def test_a_profile_is_the_part_of_the_modules_that_shrink_by_more() -> None:
    shares, interval = profile(
        Change(((79, 100), (89, 100), (100, 100), (120, 100))), (-0.5, -0.1, 0.0, 0.05, 0.15, 0.5)
    )
    assert shares == [1, 0.75, 0.5, 0.5, 0.25, 0]
    assert interval is not None
    bounds = zip(interval[0], shares, interval[1], strict=True)
    assert all(low <= share <= high for low, share, high in bounds)
