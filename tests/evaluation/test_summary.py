"""Summaries, intervals and pairs; the tables and notes of an evaluation."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from benchmarks.intervals import coverage
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.record import ModuleFacts
from mlgo_gym.evaluation.report import by_language
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.statistics import Change, t_quantile
from mlgo_gym.evaluation.table import between_policies, change_and_projects, overview, wins_and_losses
from tests.evaluation.runs import CONFIGURATION, record

MIXED = Change(((90, 100), (220, 200), (50, 50), (0, 0)))
PROJECTS = dict.fromkeys("abcde", "p")


def test_a_change_has_sums_a_geometric_mean_and_counts() -> None:
    assert (MIXED.value, MIXED.baseline) == (360, 350)
    assert MIXED.total == pytest.approx(10 / 350)
    assert MIXED.mean == pytest.approx((91 / 101 * 221 / 201) ** (1 / 4) - 1)
    assert Change(((199, 399), (399, 199))).mean == pytest.approx(0)
    assert (MIXED.better, MIXED.worse, MIXED.equal) == (1, 1, 2)
    nothing = Change(())
    assert (nothing.total, nothing.mean, nothing.equal, Change(((5, 0),)).total) == (0, 0, 0, math.inf)


def test_only_modules_with_decisions_and_timed_decisions_count() -> None:
    episodes = (
        record("default", "a", 100, 100),
        record("clang:-x", "a", 80, 100, seconds=1.5),
        record("default", "empty", status="no-decisions", metrics={}),
        record("clang:-x", "empty", 1, 1000),
        record("clang:-x", "b", status="failed", metrics={}, seconds=0.5),
        record("rule", "a", decisions=30, policy_seconds=0.002),
        record("rule", "b", decisions=10, policy_seconds=0.001),
        record("rule", "c", decisions=70),  # its time was not measured
    )
    policies = dict.fromkeys(("default", "clang:-x", "rule"), "")
    _, summary, timed = EvaluationResult(replace(CONFIGURATION, policies=policies), episodes).summaries()
    assert (summary.modules, summary.failures, summary.seconds) == (1, 1, 2.0)
    assert summary.changes["text"].pairs == ((80, 100),)
    assert timed.decisions == 40
    assert timed.policy_seconds == pytest.approx(0.003)


def test_pairs_compare_modules_of_both_and_the_probability_is_the_mann_whitney_statistic() -> None:
    ours, theirs = {"a": 1, "b": 2, "c": 5, "d": 3, "x": 1}, {"a": 2, "b": 2, "c": 4, "d": 4, "y": 1}
    pair = Change.between(ours, theirs, PROJECTS)
    assert pair.modules == ("a", "b", "c", "d")
    assert (pair.better, pair.equal, pair.worse) == (2, 1, 1)
    statistics = [stats.mannwhitneyu([theirs[name]], [ours[name]]).statistic for name in pair.modules]
    assert pair.probability == pytest.approx(sum(statistics) / 4) == pytest.approx(2.5 / 4)
    assert Change.between(theirs, ours, PROJECTS).probability == pytest.approx(1.5 / 4)
    assert Change.between(ours, theirs, {**PROJECTS, "d": "q"}).probability == pytest.approx((1.5 / 3 + 1) / 2)


def test_the_change_of_a_policy_is_one_number() -> None:
    result = EvaluationResult(
        replace(
            CONFIGURATION, metric="spill_cost", policies=dict.fromkeys(("ours", "default", "broken", "absent"), "")
        ),
        (
            record("ours", "a", metrics={"text": (199, 399), "spill_cost": (0, 1)}),
            record("ours", "b", metrics={"text": (399, 399), "spill_cost": (1, 1)}, project="q"),
            record("broken", "a", status="failed", metrics={}),
        ),
    )
    assert result.change("ours") == pytest.approx(0.5**0.5 - 1)
    for policy, message in (
        ("absent", r"a policy with results \(ours, broken\), got 'absent'$"),
        ("broken", "expected results of broken on every module, got 1 failed"),
    ):
        with pytest.raises(MlgoError, match=message):
            result.change(policy)


def test_a_table_by_language_has_intervals_where_there_are_four_projects() -> None:
    episodes = tuple(record("ours", str(n), 80 + n, project=str(n % 4 if n < 8 else n)) for n in range(10))
    facts = {str(n): ModuleFacts(str(n), "", None, "C" if n < 8 else "C++", ()) for n in range(10)}
    table = by_language(EvaluationResult(replace(CONFIGURATION, policies={"ours": ""}), episodes, facts))
    assert table is not None
    assert [(row[:3], "[" in row[3]) for row in table.rows] == [(("C", "8", "4"), True), (("C++", "2", "2"), False)]


def test_a_table_shows_the_bytes_in_memory_beside_a_metric_that_falls() -> None:
    metrics = {"text": (90, 100), "loaded": (206, 200), "max_frame": (8, 16)}
    for metric, shown in (("text", "+2.99"), ("max_frame", "+2.99"), ("loaded", None)):
        settings = replace(CONFIGURATION, metric=metric, policies={"ours": ""})
        table = EvaluationResult(settings, (record("ours", "a", metrics=metrics),)).tables()[1]
        assert dict(zip(table.columns, table.rows[0], strict=True)).get("loaded") == shown


def test_the_tables_have_the_figures_of_each_policy() -> None:
    episodes = (
        record("default", "a", 100, 100, project="one"),
        record("default", "b", 201, 200, project="one"),
        record("default", "c", 50, 50, project="two"),
        record("never", "a", 110, 100, project="one"),
        record("never", "b", 190, 200, project="one"),
        record("never", "c", status="failed", metrics={}, project="two", error={"message": "stalled\nfor 60 s"}),
        record("default", "d", status="no-decisions", metrics={}),
    )
    result = EvaluationResult(replace(CONFIGURATION, policies={"default": "default", "never": "never"}), episodes)
    summaries = result.summaries()
    table = overview(result.configuration, summaries)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert rows[0] == {
        "policy": "default", "modules": "2", "text bytes": "301", "clang": "300", "total": "+0.33 %", "better": "0",
        "equal": "1", "worse": "1", "failed": "0",
    }  # fmt: skip
    assert (rows[1]["modules"], rows[1]["total"], rows[1]["failed"]) == ("2", "0", "1")
    pairs = between_policies(result.pairs)
    assert pairs is not None
    assert [(row[0], row[1], *row[3:]) for row in pairs.rows] == [("never / default", "50%", "1", "1/0/1")]
    wins, losses = wins_and_losses("text", summaries)
    assert (wins.title, losses.title) == ("Where never wins most", "Where never loses most")
    assert wins.rows == (("b", "200", "-10", "-4.98 %"),)
    assert losses.rows == (("a", "100", "+10", "+9.90 %"),)


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
    freedoms = np.array([3, 4, 6, 9, 20, 40])
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
