"""The command line as a whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

import mlgo_gym
from mlgo_gym.cli.application import application

PROGRAM = Path(sys.executable).with_name("mlgo-gym")


def test_it_says_its_version() -> None:
    assert CliRunner().invoke(application, ["--version"]).stdout == f"mlgo-gym {mlgo_gym.__version__}\n"


def test_its_help_names_every_command() -> None:
    listed = CliRunner().invoke(application, ["--help"]).stdout
    for command in ("corpus", "doctor", "evaluate", "report"):
        assert f" {command} " in listed


def test_an_error_is_one_message_without_a_traceback() -> None:
    process = subprocess.run(
        [str(PROGRAM), "evaluate", "mlgo/Inline-v0", "--policy", "nver"], capture_output=True, text=True, check=False
    )
    assert process.returncode == 2
    assert process.stderr.startswith("mlgo-gym: there is no policy 'nver'; did you mean never")
    assert process.stderr.count("\n") == 1


def test_a_command_imports_nothing_heavy_before_it_runs() -> None:
    program = f"""
import sys, types
package = types.ModuleType("mlgo_gym")  # the package itself registers environments, for which it needs gymnasium
package.__path__ = [{str(Path(mlgo_gym.__file__).parent)!r}]
package.__version__, package.ENVIRONMENTS = "0", {{}}
sys.modules["mlgo_gym"] = package
import mlgo_gym.cli.application, mlgo_gym.cli.corpus, mlgo_gym.cli.doctor, mlgo_gym.cli.evaluate, mlgo_gym.cli.report
print(*({{"gymnasium", "numpy", "matplotlib", "jinja2", "rich.console"}} & sys.modules.keys()))
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() in ("", "rich.console")
