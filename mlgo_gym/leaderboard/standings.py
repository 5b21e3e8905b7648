"""Tables of a board, one per level and compiler, smallest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlgo_gym.evaluation.intervals import estimates
from mlgo_gym.evaluation.number_format import change, short
from mlgo_gym.evaluation.summary import TEXT, Change
from mlgo_gym.evaluation.table import Table
from mlgo_gym.leaderboard.board import Submission
from mlgo_gym.leaderboard.rules import some
from mlgo_gym.tasks.reward import worst_cost

_MAX_MODULES = 3
_MAX_NAME = 20


def standings(submissions: Sequence[Submission], *, narrow: bool = True) -> list[Table]:
    """Return the tables; partial submissions and those trained on evaluated modules are flagged.

    The column `less/more` counts smaller and larger modules, `verified` the reproduced ones. `narrow` shortens long
    names, so that a table fits a page of text.
    """
    groups: dict[tuple[str, str], list[Submission]] = {}
    for each in sorted(submissions, key=lambda each: (each.manifest.level, each.manifest.clang, change_of(each).mean)):
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
    """Return the notes below the tables."""
    lines = []
    for each in submissions:
        name = each.manifest.name
        if each.trained:
            shown = some(each.trained, _MAX_MODULES)
            lines.append(f"{name}: trained on {len(each.trained)} of its {len(each.result.modules)} modules: {shown}")
        if each.trained is None:
            lines.append(f"{name}: its training modules are unknown")
        if not each.coverage.complete:
            lines.append(f"{name}: partial, do not compare with complete ones; missing are {each.coverage}")
        if each.verification is None:
            lines.append(f"{name}: never reproduced; run `leaderboard verify`")
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
    """Return the sizes of a submission against plain clang; failed compiles have the worst cost of rewards."""
    (summary,) = submission.result.summaries()
    found = summary.changes[TEXT]
    if submission.verification is None or not submission.verification.failed:
        return found
    projects = {episode.module: episode.project for episode in submission.result.episodes}
    failed = submission.verification.failed
    return Change(
        (*found.pairs, *((worst_cost(size), size) for size in failed.values())),
        (*found.clusters, *(projects[module] for module in failed)),
    )


def _row(submission: Submission, narrow: bool, failed: bool) -> tuple[str, ...]:
    found, data = change_of(submission), as_data(submission)
    name = submission.manifest.name
    flags = [f"trained on {len(submission.trained)}"] if submission.trained else []
    flags += [] if submission.coverage.complete else ["partial"]
    return (
        short(name, _MAX_NAME) if narrow else name,
        change(estimates(found).mean),
        f"{100 * found.total:+.2f}",
        f"{found.better}/{found.worse}",
        *([str(data["failed"])] * failed),
        f"{data['verified']}/{data['of']}",
        ", ".join(flags) or "-",
    )
