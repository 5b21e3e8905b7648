"""`mlgo-gym doctor`: a complete installation, and a problem with its remedy for each fault."""

import json
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.llvm.toolchain import Toolchain
from tests.cli.command import run
from tests.conftest import clang_argument, write_program


def examine(clang: str = "bundled", **variables: str) -> tuple[dict[str, Any], list[str], str]:
    """Return the findings, the problems, and the remedies in one string."""
    findings = json.loads(run("doctor", "--json", "--clang", clang, env=variables).stdout)
    problems = findings["problems"]
    return findings, [each["problem"] for each in problems], "\n".join(each["remedy"] for each in problems)


def test_a_complete_installation_has_no_problems(any_toolchain: Toolchain, cache: Path) -> None:
    findings, problems, _ = examine(clang_argument(any_toolchain))
    assert problems == []
    assert findings["clang"]["version"] == any_toolchain.version_text
    advisors = findings["clang"]["advisors"]
    assert {name: advisor["features"] for name, advisor in advisors.items()} == {
        "inlining": 39 if any_toolchain.version >= (19,) else 36,
        "eviction": 21,
        "priority": 3,
    }
    result = run("doctor", "--clang", clang_argument(any_toolchain))
    assert result.exit_code == 0
    lines = (f"clang {any_toolchain.version_text}", "  inlining   supported, ", f"cache: {cache}", "no problems")
    assert [line for line in lines if line not in result.stdout] == []


@pytest.mark.filterwarnings("ignore:the cache .* cannot be written")  # once for each process that compiles
def test_another_program_a_clang_without_advisors_and_a_closed_cache_are_found(tmp_path: Path, own_cache: Path) -> None:
    result = run("doctor", "--clang", "/bin/true")
    assert result.exit_code == 1
    assert "problem 1: /bin/true is not clang" in result.stdout
    assert "remedy: choose clang 17 or newer" in result.stdout
    broken = "case $* in *--version*) echo clang version 19.0.0;; *) echo broken >&2; exit 1;; esac"
    findings, problems, _ = examine(str(write_program(tmp_path / "clang", broken)))
    assert findings["clang"]["version"] == "19.0.0"
    assert all("broken" in advisor["error"] for advisor in findings["clang"]["advisors"].values())
    assert len(problems) == 3
    _, problems, remedies = examine(MLGO_CACHE=str(tmp_path / "clang" / "cache"))
    assert [problem for problem in problems if "cannot be written: Not a directory" in problem]
    assert "$MLGO_CACHE" in remedies
