"""Runs commands of `mlgo-gym` in this process."""

import json
from collections.abc import Mapping
from typing import Any

from typer.testing import CliRunner, Result

from mlgo_gym.cli.application import application


def run(*arguments: object, env: Mapping[str, str | None] | None = None) -> Result:
    """Run a command with further variables; an error of mlgo-gym is raised."""
    result = CliRunner().invoke(application, list(map(str, arguments)), env=env)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run_json(*arguments: object) -> Any:
    """Run a command that succeeds with `--json`; return what it prints."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
