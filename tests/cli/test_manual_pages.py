"""The manual pages are generated from the code, and current."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.registration import load_env_creator
from typer.testing import CliRunner

import mlgo_gym
from mlgo_gym.cli.application import application
from mlgo_gym.cli.manual_pages import make_default, outdated, pages, write_pages
from mlgo_gym.episode.options import declared_arguments
from mlgo_gym.tasks.feature_table import FEATURES
from mlgo_gym.tasks.info_reference import info_keys

COMMITTED = Path(__file__).parents[2] / "docs" / "reference" / "environments"


def test_the_committed_pages_are_current() -> None:
    assert outdated(COMMITTED) == [], "run `mlgo-gym docs`"


def test_there_is_a_page_for_every_environment_and_a_link_to_it() -> None:
    texts = pages()
    names = {f"{name.partition('/')[2]}.md" for name in mlgo_gym.ENVIRONMENTS}
    assert {*texts} == {"index.md", "arguments.md", *names}
    assert re.findall(r"^\| \[`(.*)`\]", texts["index.md"], re.MULTILINE) == [*mlgo_gym.ENVIRONMENTS]
    assert {*re.findall(r"\]\(([^/]*?)\)", texts["index.md"])} < {*texts}


@pytest.mark.parametrize(
    ("page", "advisors"),
    [
        ("Inline-v0", ["inlining"]),
        ("RegAllocEvict-v0", ["eviction"]),
        ("RegAllocPriority-v0", ["priority"]),
        ("Joint-v0", ["inlining", "eviction", "priority"]),
    ],
)
def test_a_page_has_a_row_for_every_feature_of_its_advisors(page: str, advisors: list[str]) -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (?:int64|float32) \| \(.*\) \| .+ \| \d\d \|$", pages()[f"{page}.md"], re.MULTILINE
    )
    assert rows == [feature.name for advisor in advisors for feature in FEATURES[advisor]]


def test_pages_are_written_once_and_superfluous_ones_deleted(tmp_path: Path) -> None:
    assert write_pages(tmp_path) == sorted(pages())
    assert write_pages(tmp_path) == []
    (tmp_path / "Gone-v0.md").write_text("# mlgo/Gone-v0\n")
    (tmp_path / "Inline-v0.md").write_text("changed\n")
    assert write_pages(tmp_path) == ["Gone-v0.md", "Inline-v0.md"]
    assert outdated(tmp_path) == []
    assert not (tmp_path / "Gone-v0.md").exists()


def test_a_check_writes_nothing_and_fails_where_a_page_is_not_current(tmp_path: Path) -> None:
    output = ["docs", "--output", str(tmp_path)]
    missing = CliRunner().invoke(application, [*output, "--check"])
    assert missing.exit_code == 1
    assert f"outdated: {tmp_path / 'Inline-v0.md'}" in missing.output
    assert not [*tmp_path.iterdir()]
    assert CliRunner().invoke(application, output).exit_code == 0
    assert CliRunner().invoke(application, [*output, "--check"]).exit_code == 0


def section(page: str, heading: str) -> str:
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def documented_arguments(page: str) -> list[str]:
    return re.findall(r"^\| `([\w.]+)` \| `.+?` \| ", page.partition("\n## Info\n")[0], re.MULTILINE)


@pytest.mark.parametrize("name", list(mlgo_gym.ENVIRONMENTS))
def test_each_argument_has_a_row_on_the_shared_page_or_on_that_of_the_environment(name: str) -> None:
    texts = pages()
    page = texts[f"{name.partition('/')[2]}.md"]
    shared = documented_arguments(texts["arguments.md"])
    own = re.findall(r"^\| `(\w+)` \| `.+?` \| ", section(page, "Arguments"), re.MULTILINE)
    entry_point = gym.spec(name).entry_point
    assert isinstance(entry_point, str)
    env_type: Any = load_env_creator(entry_point)
    assert sorted(shared + own) == sorted(argument.name for argument in declared_arguments(env_type.options_type))
    assert {argument for argument in shared + own if "." not in argument} == {*inspect.signature(env_type).parameters}


@pytest.mark.parametrize("name", list(mlgo_gym.ENVIRONMENTS))
def test_each_key_of_info_has_a_row_on_the_shared_page_or_on_that_of_the_environment(name: str) -> None:
    texts = pages()
    shared = section(texts["arguments.md"], "Info")
    own = section(texts[f"{name.partition('/')[2]}.md"], "Info")
    assert "`default_action`" in shared
    for key in info_keys(make_default(name).task):
        row = f" | {key.type} | {key.meaning} |"
        assert (f"| `{key.name}` | {key.when}" in shared and row in shared) != (row in own)


def test_no_cell_of_a_table_is_longer_than_a_line() -> None:
    cells = [cell for page in pages().values() for line in page.splitlines() for cell in line.split(" | ")[1:]]
    assert [cell for cell in cells if len(cell) > 122] == []
