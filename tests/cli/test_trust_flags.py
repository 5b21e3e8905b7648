"""`--trust-flags` is an option of every command that opens a corpus; without it, untrusted input is not run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mlgo_gym.corpus.modules.description import write_command, write_description
from mlgo_gym.episode.options import with_compile_options
from mlgo_gym.errors import UntrustedError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.make_env import recorded_arguments
from mlgo_gym.trajectories import trace
from tests.cli.command import run

INLINE = "mlgo/Inline-v0"


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


@pytest.mark.parametrize(
    "command",
    [
        "evaluate mlgo/Inline-v0 --corpus HOSTILE --policy default",
        "trace mlgo/Inline-v0 --corpus HOSTILE --output OUTPUT",
        "search mlgo/Inline-v0 --corpus HOSTILE --compiles 2",
        "label HOSTILE --output OUTPUT --compiles 2",
    ],
)
def test_a_command_runs_flags_that_write_only_with_the_option(command: str, hostile: Path, tmp_path: Path) -> None:
    words = command.replace("HOSTILE", str(hostile)).replace("OUTPUT", str(tmp_path / "output")).split()
    try:
        refused = run(*words)
    except UntrustedError as error:
        assert "-stats-file=" in str(error)  # noqa: PT017 - some commands report it as a failed module
    else:
        assert refused.exit_code != 0
        assert "-stats-file=" in refused.output
    assert not (tmp_path / "written").exists()
    shutil.rmtree(tmp_path / "output", ignore_errors=True)
    assert run(*words, "--trust-flags").exit_code == 0
    assert (tmp_path / "written").exists()


def test_functions_take_trust_too(hostile: Path, tmp_path: Path) -> None:
    written = tmp_path / "written"
    with pytest.raises(UntrustedError, match=r"--trust-flags, trust_flags=True"):
        trace(INLINE, "default", corpus=str(hostile), output=tmp_path / "refused")
    assert not written.exists()
    trace(INLINE, "default", corpus=str(hostile), output=tmp_path / "trusted", trust_flags=True)
    assert written.exists()
    written.unlink()
    result = evaluate(INLINE, policies=["default"], corpus=str(hostile), trust_flags=True)
    assert [episode.status for episode in result.episodes] == ["done"]
    assert written.exists()


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
    given = {"corpus": corpus, "extra_flags": extra_flags}
    with pytest.raises(UntrustedError):
        recorded_arguments("results", INLINE, arguments, **given, trust_flags=False)  # type: ignore[arg-type]
    trusted = recorded_arguments("results", INLINE, arguments, **given, trust_flags=True)  # type: ignore[arg-type]
    assert trusted == with_compile_options(arguments, trust_flags=True)


def test_a_recorded_environment_is_not_imported_and_a_recorded_trust_is_ignored(tmp_path: Path, calls: Path) -> None:
    with pytest.raises(UntrustedError, match="imported"):
        recorded_arguments("results", "evil:Evil-v0", {}, corpus=None, trust_flags=False)
    folder = tmp_path / "trace"
    assert run("trace", INLINE, "--corpus", calls, "--output", folder).exit_code == 0
    assert run("replay", folder).exit_code == 0
    meta = json.loads((folder / "meta.json").read_text())
    meta["arguments"] |= {"compile_options": {"extra_flags": ["-load", "./evil.so"], "trust_flags": True}}
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(UntrustedError, match="'-load'"):
        run("replay", folder)
