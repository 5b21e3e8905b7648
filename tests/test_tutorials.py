"""The tutorials run, and print what their pages show."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TUTORIALS, EXAMPLES = ROOT / "docs" / "tutorials", ROOT / "examples"


def test_the_first_episode_prints_what_its_page_shows() -> None:
    page = (TUTORIALS / "first_episode.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == page.count("```python")
    names: dict[str, Any] = {}
    for code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "first_episode.md", "exec"), names)
        assert printed.getvalue() == expected


def test_the_program_of_a_training_is_the_example() -> None:
    page = (TUTORIALS / "train_and_compare.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    example = {line.strip() for line in (EXAMPLES / "sb3_ppo.py").read_text(encoding="utf-8").splitlines()}
    assert {line.strip() for line in program.splitlines()} <= example
