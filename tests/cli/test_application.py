"""The command line as a whole: shared options, generated manual pages, tables, progress and untrusted names."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import mlgo_gym
from docs.site.environments import arguments_page, environments_page, features_page
from mlgo_gym.cli.application import application
from mlgo_gym.cli.options import environment_arguments, parse_settings
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.cli.terminal import escape_control_characters
from mlgo_gym.errors import MissingExtraError, MlgoError
from mlgo_gym.evaluation.table import Table
from tests.cli.command import run, run_json
from tests.corpus.untrusted import make_untrusted_corpus
from tests.mlgo_clang.conftest import write_network

PROGRAM = Path(sys.executable).with_name("mlgo-gym")

WITHOUT_JSON = {"build", "corpus catalogue", "corpus record"}
"""Commands that write files or whose standard output is that of a build."""


def commands(group: Any = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its full name."""
    group = group or typer.main.get_command(application)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def start(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, env={**os.environ, **variables})


def test_every_command_has_json_and_a_help_text_for_itself_and_its_options() -> None:
    for name, command in commands():
        options = {option for parameter in command.params for option in parameter.opts}
        assert ("--json" in options) != (name in WITHOUT_JSON), name
        assert command.help, name
        assert [parameter.name for parameter in command.params if not getattr(parameter, "help", None)] == [], name


def test_the_program_prints_its_version_and_an_error_as_one_line_and_a_shell_completes_commands() -> None:
    assert run("--version").stdout == f"mlgo-gym {mlgo_gym.__version__}\n"
    failed = start("evaluate", "mlgo/Inline-v0", "--policy", "nver")
    assert (failed.returncode, failed.stderr.count("\n")) == (2, 1)
    assert failed.stderr.startswith("mlgo-gym: there is no policy 'nver'; did you mean never")
    completed = start(_MLGO_GYM_COMPLETE="complete_bash", COMP_WORDS="mlgo-gym expl", COMP_CWORD="1").stdout
    assert completed.split() == ["explain"]


def test_the_environments_are_listed_and_have_manuals() -> None:
    listed = run_json("env")
    assert {entry["id"] for entry in listed} >= set(mlgo_gym.ENVIRONMENTS)
    for entry in listed:
        if entry["id"] in mlgo_gym.APPROXIMATIONS:
            with pytest.raises(MlgoError, match=r"expected an environment with a compiler, .*bandit\.InlineBanditEnv`"):
                run("env", entry["id"])
            continue
        manual = run_json("env", entry["id"])["manual"]
        assert run("env", entry["id"]).stdout == f"{manual}\n"
        words = ("corpus", "reward", "render_mode")
        assert [text for text in (entry["summary"], *(f"- `{word}` = " for word in words)) if text not in manual] == []
    with pytest.raises(MlgoError, match="did you mean 'mlgo/Inline-v0'"):
        run("env", "mlgo/Inlin-v0")


def test_options_are_arguments_of_an_environment() -> None:
    assert environment_arguments() == {}
    settings = ["observation=vector", "compile_options.cpu_limit=7", "compile_options.memory_limit=null"]
    assert environment_arguments("clang-22", settings, trust_flags=True) == {
        "clang": "clang-22",
        "observation": "vector",
        "compile_options": {"trust_flags": True, "memory_limit": None, "cpu_limit": 7},
    }
    # Settings are JSON, or else strings.
    texts = ["a=1", "b=[1, 2]", "c=null", "d=dict", 'e="1"', "f=x=y"]
    assert parse_settings(texts) == {"a": 1, "b": [1, 2], "c": None, "d": "dict", "e": "1", "f": "x=y"}
    result = run("label", "builtin", "--output", "labels", "--compiles", 0)
    assert (result.exit_code, "--compiles" in result.output) == (2, True)
    for text in ("", "a", "=1", "a b=1", "options.a=1"):
        with pytest.raises(MlgoError, match="expected --set NAME=VALUE"):
            run("evaluate", "mlgo/Inline-v0", "--set", text)
    with pytest.raises(MlgoError, match=r"expected --set compile_options\.ENTRY=VALUE, got 'compile_options=5'"):
        run("evaluate", "mlgo/Inline-v0", "--set", "compile_options=5", "--set", "compile_options.timeout=3")
    assert parse_settings(["compile_options={}", "compile_options.a=1"]) == {"compile_options": {"a": 1}}


def test_the_extra_of_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    policy = tmp_path / "policy.safetensors"
    write_network(policy, "cost_estimate", -1, 0)
    for library, extra, command in (
        ("ray", "ray", "evaluate mlgo/Inline-v0 --limit 1 --ray auto"),
        ("tosa_converter_for_tflite", "tosa", f"export tosa --policy mlp:{policy} --output /dev/null/model"),
    ):
        monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
        with pytest.raises(MissingExtraError, match=rf"\[{extra}\]'"):
            run(*command.split())


def test_the_page_of_the_environments_has_a_section_of_each() -> None:
    page = environments_page()
    assert [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")] == list(
        mlgo_gym.ENVIRONMENTS
    )
    assert {"## Arguments", "## Info"} < set(arguments_page().splitlines())
    assert "| `cost_estimate` | int64 | (1,) |" in features_page()


SHEET = Table(
    "What it shows",
    ("policy", "modules", "bytes", "total"),
    (("default", "26", "398,805", "0"), ("clang:-mllvm,-inline-threshold=20", "26", "400,000", "+0.30 %")),
)

CONTROL = "\x1b]52;c;cGFzdGVk\x07\x1b[2Jname\r\x9b1m\u202e"
SHOWN = "\\x1b]52;c;cGFzdGVk\\x07\\x1b[2Jname\\x0d\\x9b1m\\u202e"


def test_a_narrow_terminal_shows_every_complete_cell_and_each_row_with_its_policy() -> None:
    for width, tables in ((100, 1), (60, 1), (55, 2), (50, 3)):
        shown = SHEET.as_text(width)
        assert [cell for row in (SHEET.columns, *SHEET.rows) for cell in row if cell not in shown] == []
        assert max(map(len, shown.splitlines())) <= width
        assert shown.count("clang:-mllvm") == tables


def test_lines_show_progress_and_result(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with progress_over(9, "Episodes") as advance:
        for now in (2, 5, 7, 11):
            clock[0] = now
            advance()
    with progress_over(None, "Labels") as advance:
        clock[0] += 100
        advance.at(3, 4, "Labels", "fine")
        advance.at(0, 10, "Trees")  # a new title restarts the clock
        clock[0] += 10
        advance.at(5, 10, "Trees")
    assert capsys.readouterr().err.splitlines() == [
        "Episodes: 2 of 9, 24.0/min, 0:00:18 left",
        "Episodes: 4 of 9, 21.8/min, 0:00:14 left",
        "Labels: 3 of 4, 1.8/min, 0:00:33 left; fine",
        "Trees: 5 of 10, 30.0/min, 0:00:10 left",
    ]
    with progress_over(None, "Short") as advance:
        advance()
    assert capsys.readouterr().err == ""


def test_control_characters_of_untrusted_names_are_escaped(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert escape_control_characters(f"a\tb\n{CONTROL}ü日") == f"a\tb\n{SHOWN}ü日"
    with monkeypatch.context() as terminal:
        terminal.setenv("FORCE_COLOR", "1")
        terminal.setenv("COLUMNS", "200")
        with progress_over(2, f"[red]{CONTROL}") as advance:
            advance(f"of {CONTROL}")
    bar = capsys.readouterr().err
    assert ("[red]\\x1b]52" in bar, "of \\x1b]52" in bar, "\x1b]" in bar, "\x1b[" in bar) == (True, True, False, True)
    folder = make_untrusted_corpus(tmp_path / "corpus", calls, ("-load", "x"), name=f"m{CONTROL}")
    shown = run("corpus", "verify", folder, env={"COLUMNS": "400"}).output
    assert ("\x1b" in shown, "cGFzdGVk" in shown) == (False, True)
    failed = start("validate", str(tmp_path / f"a{CONTROL}.recipe"))
    assert (failed.returncode, failed.stderr.count("\n"), SHOWN in failed.stderr) == (2, 1, True)
