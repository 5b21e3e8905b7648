"""The program that decides for `mlgo-clang` with a policy that uses callee features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlgo_clang.compiler import compiler_command
from mlgo_gym.deploy import program
from mlgo_gym.deploy.policy_decisions import policy_decisions
from mlgo_gym.episode.options import with_compile_options
from mlgo_gym.errors import CompilerError
from mlgo_gym.make_env import make_environment


def test_decisions_are_made_under_the_limits_of_the_compilation(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(spec: str, arguments: dict[str, Any]) -> Any:
        return make_environment(spec, with_compile_options(arguments, memory_limit=1e-8))

    monkeypatch.setattr(program, "make_environment", make)
    source = tmp_path / "calls.c"
    source.touch()
    command = [*compiler_command("bundled", "gcc"), "-Oz", "-c", str(source)]
    with (
        program.module_environment(calls.read_bytes(), command, "bundled", "inline-oz") as env,
        pytest.raises(CompilerError),
    ):
        policy_decisions(env, "inline-oz")
