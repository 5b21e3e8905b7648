"""The manual pages are made from the code, and current."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.envs.registration import load_env_creator
from typer.testing import CliRunner

import mlgo_gym
from mlgo_gym.cli.application import application
from mlgo_gym.cli.manual_pages import outdated, pages, write_pages
from mlgo_gym.episode.options import EnvOptions
from mlgo_gym.tasks.feature_reference import FEATURES

COMMITTED = Path(__file__).parents[2] / "docs" / "environments"


def test_the_committed_pages_are_current() -> None:
    assert outdated(COMMITTED) == [], "run `mlgo-gym docs`"


def test_there_is_a_page_for_every_environment_and_a_link_to_it() -> None:
    texts = pages()
    assert {*texts} == {"index.md", *(f"{name.partition('/')[2]}.md" for name in mlgo_gym.ENVIRONMENTS)}
    assert re.findall(r"^\| \[`(.*)`\]", texts["index.md"], re.MULTILINE) == [*mlgo_gym.ENVIRONMENTS]
    assert {*re.findall(r"\]\((.*)\)", texts["index.md"])} < {*texts}


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


def test_pages_are_written_once_and_stale_ones_taken_away(tmp_path: Path) -> None:
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
    assert f"not current: {tmp_path / 'Inline-v0.md'}" in missing.output
    assert not [*tmp_path.iterdir()]
    assert CliRunner().invoke(application, output).exit_code == 0
    assert CliRunner().invoke(application, [*output, "--check"]).exit_code == 0


@pytest.mark.parametrize("name", list(mlgo_gym.ENVIRONMENTS))
def test_a_page_has_a_row_for_every_argument_and_every_key_of_info(name: str) -> None:
    page = pages()[f"{name.partition('/')[2]}.md"]
    arguments = page.partition("\n## Arguments\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \| ", arguments, re.MULTILINE))
    entry_point = gym.spec(name).entry_point
    assert isinstance(entry_point, str)
    own = {*inspect.signature(load_env_creator(entry_point)).parameters} - {"options"}
    assert {*rows} == {*EnvOptions.__annotations__} | own
    assert rows["reward"] == ('`"spill_cost"`' if "RegAlloc" in name else '`"relative"`')
    assert "`default_action`" in page.partition("\n## Info\n")[2].partition("\n## ")[0]
