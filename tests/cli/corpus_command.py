"""Runs commands of `mlgo-gym corpus` in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from mlgo_gym.cli.application import application


def run(*arguments: str) -> tuple[int, str, str]:
    """Run a command of `mlgo-gym corpus`; return its exit status and what it wrote to output and error."""
    result = CliRunner().invoke(application, ["corpus", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr
