"""The manual pages are generated from the code, and current."""

from __future__ import annotations

import re
from pathlib import Path

import mlgo_gym
from mlgo_gym.cli.manual_pages import pages
from mlgo_gym.tasks.feature_table import FEATURES
from tests.cli.command import run

COMMITTED = Path(__file__).parents[2] / "docs" / "reference" / "environments"
ADVISORS = {
    "Inline-v0": ["inlining"],
    "RegAllocEvict-v0": ["eviction"],
    "RegAllocPriority-v0": ["priority"],
    "Joint-v0": ["inlining", "eviction", "priority"],
}


def test_the_committed_pages_are_current_and_have_a_row_for_each_feature() -> None:
    assert run("docs", "--output", COMMITTED, "--check").exit_code == 0, "run `mlgo-gym docs`"
    texts = pages()
    assert {*texts} == {"index.md", "arguments.md", *(f"{name.partition('/')[2]}.md" for name in mlgo_gym.ENVIRONMENTS)}
    assert re.findall(r"^\| \[`(.*)`\]", texts["index.md"], re.MULTILINE) == [*mlgo_gym.ENVIRONMENTS]
    assert {*re.findall(r"\]\(([^/]*?)\)", texts["index.md"])} < {*texts}
    row = re.compile(r"^\| `(\w+)` \| (?:int64|float32) \| \(.*\) \| .+ \| \d\d \|$", re.MULTILINE)
    for page, advisors in ADVISORS.items():
        names = [feature.name for advisor in advisors for feature in FEATURES[advisor]]
        assert row.findall(texts[f"{page}.md"]) == names


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
