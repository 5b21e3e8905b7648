"""The benchmark of ten programs: its projects, and its results."""

from __future__ import annotations

import json

import pytest

from benchmarks.ten_programs import RESULTS, VARIANTS
from benchmarks.ten_projects import PROJECTS, Project

ROWS = json.loads(RESULTS.read_bytes())


def test_at_least_half_of_ten_programs_were_never_near_training() -> None:
    assert len({project.name for project in PROJECTS}) == 10
    assert sum(not project.trained for project in PROJECTS) >= 5


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_the_results_belong_to_the_sources_with_a_digest(project: Project) -> None:
    assert len(bytes.fromhex(project.sha256)) == 32
    row = ROWS[project.name]
    assert (row["archive"], row["trained"]) == (project.archive, project.trained)
    assert {"Oz", "plugin", "wrapper"} <= set(row["variants"]) <= set(VARIANTS)


@pytest.mark.parametrize("name", ROWS)
def test_the_tests_of_a_program_never_fail(name: str) -> None:
    assert [variant for variant, found in ROWS[name]["variants"].items() if found["tests"] is False] == []


@pytest.mark.parametrize("name", ROWS)
def test_policies_decide_in_builds_by_the_wrapper(name: str) -> None:
    builds = [found for variant, found in ROWS[name]["variants"].items() if variant.endswith("wrapper")]
    assert all(found["counters"]["compiled with a policy"] for found in builds)
    assert not any(key.startswith("compiled by") for found in builds for key in found["counters"])
