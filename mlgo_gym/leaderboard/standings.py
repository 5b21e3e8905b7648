"""The tables of a board: one for each level and compiler, the smallest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlgo_gym.evaluation.intervals import estimates
from mlgo_gym.evaluation.summary import TEXT, Change
from mlgo_gym.evaluation.table import Table
from mlgo_gym.evaluation.wording import change, short
from mlgo_gym.leaderboard.board import Submission

_NAMED = 3
_LONGEST = 20


def standings(submissions: Sequence[Submission], *, narrow: bool = True) -> list[Table]:
    """Return the tables; submissions whose modules are not all there, or that were trained on some, are marked.

    `less/more` counts the modules that became smaller and larger, `verified` those that came out again.

    Args:
        submissions: the board's.
        narrow: whether long names are shortened, so that a table fits a page of text.
    """
    groups: dict[tuple[str, str], list[Submission]] = {}
    for each in sorted(submissions, key=lambda each: (each.manifest.level, each.manifest.clang, _mean(each))):
        groups.setdefault((each.manifest.level, each.manifest.clang), []).append(each)
    failed = any(each.result.failures for each in submissions)
    columns = ("submission", "geo-mean", "total", "less/more", *(["failed"] * failed), "verified", "flags")
    return [
        Table(
            f"-{level}, clang {clang}, protocol {group[0].manifest.protocol}: {TEXT} against plain clang in %",
            columns,
            tuple(_row(each, narrow, failed) for each in group),
        )
        for (level, clang), group in groups.items()
    ]


def remarks(submissions: Sequence[Submission]) -> list[str]:
    """Return a line for each thing that has to be said beside the tables."""
    lines = []
    for each in submissions:
        name = each.manifest.name
        if each.trained:
            shown = ", ".join(each.trained[:_NAMED]) + ", …" * (len(each.trained) > _NAMED)
            lines.append(f"{name}: trained on {len(each.trained)} of its {len(each.result.modules)} modules: {shown}")
        if each.trained is None:
            lines.append(f"{name}: does not say what it was trained on")
        if not each.coverage.complete:
            lines.append(f"{name}: partial, not to be compared with whole ones; missing are {each.coverage}")
        if each.verification is None:
            lines.append(f"{name}: these results were never made again; run `leaderboard verify`")
    return lines


def as_data(submission: Submission) -> dict[str, Any]:
    """Return a submission as JSON-able data."""
    manifest, verification, coverage = submission.manifest, submission.verification, submission.coverage
    found = change_of(submission)
    return {
        **{name: getattr(manifest, name) for name in manifest.__slots__},
        "modules": len(found.pairs),
        **estimates(found).to_json(),
        "smaller": found.better,
        "larger": found.worse,
        "failed": len(submission.result.failures),
        "verified": 0 if verification is None else verification.modules,
        "of": len(submission.result.episodes) - len(submission.result.failures),
        "missing": {"datasets": list(coverage.datasets), "modules": list(coverage.modules)},
        "trained_on": None if submission.trained is None else list(submission.trained),
    }


def change_of(submission: Submission) -> Change:
    """Return a submission's sizes against plain clang's; a compile that failed counts as clang's own."""
    (summary,) = submission.result.summaries()
    found = summary.changes[TEXT]
    if submission.verification is None or not submission.verification.failed:
        return found
    projects = {episode.module: episode.project for episode in submission.result.episodes}
    failed = submission.verification.failed
    return Change(
        (*found.pairs, *((size, size) for size in failed.values())),
        (*found.clusters, *(projects[module] for module in failed)),
    )


def _mean(submission: Submission) -> float:
    return change_of(submission).mean


def _row(submission: Submission, narrow: bool, failed: bool) -> tuple[str, ...]:
    found = change_of(submission)
    data = as_data(submission)
    name = submission.manifest.name
    return (
        short(name, _LONGEST) if narrow else name,
        change(estimates(found).mean),
        f"{100 * found.total:+.2f}",
        f"{found.better}/{found.worse}",
        *([str(data["failed"])] * failed),
        f"{data['verified']}/{data['of']}",
        _flags(submission),
    )


def _flags(submission: Submission) -> str:
    parts = []
    if submission.trained:
        parts.append(f"trained on {len(submission.trained)}")
    if not submission.coverage.complete:
        parts.append("partial")
    return ", ".join(parts) or "-"
