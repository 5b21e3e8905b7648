"""`--trust-flags` is an option of every command that opens a corpus; without it, untrusted input is not run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.corpus.modules.description import write_command, write_description
from mlgo_gym.episode.options import with_compile_options
from mlgo_gym.errors import UntrustedError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.make_env import recorded_arguments
from mlgo_gym.trajectories import trace


@pytest.fixture
def hostile(tmp_path: Path, calls: Path) -> Path:
    """A corpus of one module whose flags have clang write a file."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    shutil.copy(calls, folder / "m.bc")
    flags = ["-cc1", "-triple", "x86_64-unknown-linux-musl", "-emit-obj", "-Oz", f"-stats-file={tmp_path / 'written'}"]
    write_command(folder / "m.cmd", flags)
    write_description(folder, ["m"])
    return folder


def run(*arguments: str) -> tuple[int, str]:
    """Run a command; return its exit status and all that it said."""
    result = CliRunner().invoke(application, arguments)
    return result.exit_code, f"{result.output}{result.exception or ''}"


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "mlgo/Inline-v0", "--corpus", "HOSTILE", "--policy", "default"),
        ("trace", "mlgo/Inline-v0", "--corpus", "HOSTILE", "--output", "OUTPUT"),
        ("search", "mlgo/Inline-v0", "--corpus", "HOSTILE", "--compiles", "2"),
        ("label", "HOSTILE", "--output", "OUTPUT", "--compiles", "2"),
    ],
)
def test_a_command_runs_flags_that_write_only_when_it_is_told_to_trust_them(
    command: tuple[str, ...], hostile: Path, tmp_path: Path
) -> None:
    places = {"HOSTILE": str(hostile), "OUTPUT": str(tmp_path / "output")}
    words = [places.get(word, word) for word in command]
    status, said = run(*words)
    assert status != 0
    assert "-stats-file=" in said
    assert not (tmp_path / "written").exists()
    places["OUTPUT"] = str(tmp_path / "trusted")
    status, said = run(*[places.get(word, word) for word in command], "--trust-flags")
    assert status == 0, said
    assert (tmp_path / "written").exists()


@pytest.mark.parametrize(
    ("arguments", "corpus", "extra_flags"),
    [
        ({"compile_options": {"extra_flags": ["-load", "./evil.so"]}}, None, ()),
        ({"compile_options": {"extra_flags": ["-stats-file=/tmp/written"]}}, None, ()),
        ({"compile_options": {"flags": ["-cc1", "-fpass-plugin=./evil.so"]}}, None, ()),
        ({}, "builtin,pypi:evil==1.0", ()),
        ({}, None, (("-load", "./evil.so"),)),
    ],
)
def test_recorded_arguments_are_checked(
    arguments: dict[str, object], corpus: str | None, extra_flags: tuple[tuple[str, ...], ...]
) -> None:
    environment = "mlgo/Inline-v0"
    with pytest.raises(UntrustedError):
        recorded_arguments("results", environment, arguments, corpus=corpus, extra_flags=extra_flags, trust_flags=False)
    kept = recorded_arguments(
        "results", environment, arguments, corpus=corpus, extra_flags=extra_flags, trust_flags=True
    )
    assert kept == with_compile_options(arguments, trust_flags=True)


def test_a_recorded_environment_is_not_imported_and_a_recorded_trust_is_ignored() -> None:
    with pytest.raises(UntrustedError, match="imported"):
        recorded_arguments("results", "evil:Evil-v0", {}, corpus=None, trust_flags=False)
    kept = recorded_arguments(
        "results",
        "mlgo/Inline-v0",
        {"compile_options": {"trust_flags": True}, "seed": 1},
        corpus=None,
        trust_flags=False,
    )
    assert kept == {"compile_options": {"trust_flags": False}, "seed": 1}


def test_a_trace_that_names_a_plugin_is_refused(tmp_path: Path, calls: Path) -> None:
    trace = tmp_path / "trace"
    status, said = run("trace", "mlgo/Inline-v0", "--corpus", str(calls), "--output", str(trace))
    assert status == 0, said
    assert run("replay", str(trace))[0] == 0
    path = trace / "meta.json"
    meta = json.loads(path.read_text())
    meta["arguments"] |= {"compile_options": {"extra_flags": ["-load", "./evil.so"], "trust_flags": True}}
    path.write_text(json.dumps(meta))
    status, said = run("replay", str(trace))
    assert status != 0
    assert "'-load'" in said


def test_functions_take_trust_too(hostile: Path, tmp_path: Path) -> None:
    with pytest.raises(UntrustedError, match=r"--trust-flags, trust_flags=True"):
        trace("mlgo/Inline-v0", "default", corpus=str(hostile), output=tmp_path / "refused")
    assert not (tmp_path / "written").exists()
    trusted = trace("mlgo/Inline-v0", "default", corpus=str(hostile), output=tmp_path / "trusted", trust_flags=True)
    assert len(trusted.episodes) == 1
    assert (tmp_path / "written").exists()
    (tmp_path / "written").unlink()
    result = evaluate("mlgo/Inline-v0", policies=["default"], corpus=str(hostile), trust_flags=True)
    assert [episode.status for episode in result.episodes] == ["done"]
    assert (tmp_path / "written").exists()
