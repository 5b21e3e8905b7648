"""The manual pages are generated from the code, and current."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

import mlgo_gym
from mlgo_gym.cli.manual_pages import pages
from mlgo_gym.episode.options import declared_arguments
from mlgo_gym.make_env import compiler_environments
from mlgo_gym.tasks.feature_table import FEATURES
from tests.cli.command import run

COMMITTED = Path(__file__).parents[2] / "docs" / "reference" / "environments"
ADVISORS = {
    "Inline-v0": ["inlining"],
    "RegAllocEvict-v0": ["eviction"],
    "RegAllocPriority-v0": ["priority"],
    "Joint-v0": ["inlining", "eviction", "priority"],
}


def test_the_committed_pages_are_current() -> None:
    assert run("docs", "--output", COMMITTED, "--check").exit_code == 0, "run `mlgo-gym docs`"


def test_there_is_a_page_for_every_environment_with_a_row_for_each_feature() -> None:
    texts = pages()
    assert {*texts} == {"index.md", "arguments.md", *(f"{name.partition('/')[2]}.md" for name in mlgo_gym.ENVIRONMENTS)}
    assert re.findall(r"^\| \[`(.*)`\]", texts["index.md"], re.MULTILINE) == [*mlgo_gym.ENVIRONMENTS]
    assert {*re.findall(r"\]\(([^/]*?)\)", texts["index.md"])} < {*texts}
    row = re.compile(r"^\| `(\w+)` \| (?:int64|float32) \| \(.*\) \| .+ \| \d\d \|$", re.MULTILINE)
    for page, advisors in ADVISORS.items():
        names = [feature.name for advisor in advisors for feature in FEATURES[advisor]]
        assert row.findall(texts[f"{page}.md"]) == names


def test_each_argument_has_a_row_on_the_shared_page_or_on_that_of_the_environment() -> None:
    texts = pages()
    shared = texts["arguments.md"].partition("\n## Info\n")[0]
    for name in compiler_environments():
        own = texts[f"{name.partition('/')[2]}.md"].partition("\n## Arguments\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| `([\w.]+)` \| `.+?` \| ", f"{shared}\n{own}", re.MULTILINE)
        entry_point = gym.spec(name).entry_point
        assert isinstance(entry_point, str)
        env_type: Any = load_env_creator(entry_point)
        assert sorted(rows) == sorted(argument.name for argument in declared_arguments(env_type.options_type))
        assert {argument for argument in rows if "." not in argument} == {*inspect.signature(env_type).parameters}


def test_pages_are_written_once_superfluous_ones_deleted_and_a_check_writes_nothing(tmp_path: Path) -> None:
    output = ("docs", "--output", tmp_path)
    missing = run(*output, "--check")
    assert missing.exit_code == 1
    assert f"outdated: {tmp_path / 'Inline-v0.md'}" in missing.output
    assert not [*tmp_path.iterdir()]
    assert run(*output).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {*pages()}
    (tmp_path / "Gone-v0.md").write_text("# mlgo/Gone-v0\n")
    (tmp_path / "Inline-v0.md").write_text("changed\n")
    assert run(*output, "--check").exit_code == 1
    assert run(*output).exit_code == run(*output, "--check").exit_code == 0
    assert not (tmp_path / "Gone-v0.md").exists()
