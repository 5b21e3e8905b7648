"""`--trust-flags` is an option of every command that opens a corpus; without it, untrusted input is not run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mlgo_gym.corpus.folder import write_command, write_description
from mlgo_gym.episode.options import with_compile_options
from mlgo_gym.errors import UntrustedError
from mlgo_gym.make_env import recorded_arguments
from tests.cli.command import run

INLINE = "mlgo/Inline-v0"


@pytest.mark.parametrize(
    "command",
    [
        "evaluate mlgo/Inline-v0 --corpus HOSTILE --policy default",
        "trace mlgo/Inline-v0 --corpus HOSTILE --output OUTPUT",
        "search mlgo/Inline-v0 --corpus HOSTILE --compiles 2",
        "label HOSTILE --output OUTPUT --compiles 2",
    ],
)
def test_a_command_runs_flags_that_write_only_with_the_option(command: str, calls: Path, tmp_path: Path) -> None:
    hostile, written = tmp_path / "hostile", tmp_path / "written"
    hostile.mkdir()
    shutil.copy(calls, hostile / "m.bc")
    flags = ["-cc1", "-triple", "x86_64-unknown-linux-musl", "-emit-obj", "-Oz", f"-stats-file={written}"]
    write_command(hostile / "m.cmd", flags)
    write_description(hostile, ["m"])
    words = command.replace("HOSTILE", str(hostile)).replace("OUTPUT", str(tmp_path / "output")).split()
    try:
        refused = run(*words)
    except UntrustedError as error:
        message = str(error)
    else:  # some commands report it as a failed module
        assert refused.exit_code != 0
        message = refused.output
    assert "-stats-file=" in message
    assert not written.exists()
    shutil.rmtree(tmp_path / "output", ignore_errors=True)
    assert run(*words, "--trust-flags").exit_code == 0
    assert written.exists()


def test_recorded_arguments_are_checked() -> None:
    load = ("-load", "./evil.so")
    for options, corpus, extra_flags in (
        ({"extra_flags": list(load)}, None, ()),
        ({"flags": ["-cc1", "-fpass-plugin=./evil.so"]}, None, ()),
        ({}, "builtin,pypi:evil==1.0", ()),
        ({}, None, (load,)),
    ):
        arguments = {"compile_options": options} if options else {}
        with pytest.raises(UntrustedError):
            recorded_arguments("x", INLINE, arguments, corpus=corpus, extra_flags=extra_flags, trust_flags=False)
        trusted = recorded_arguments("x", INLINE, arguments, corpus=corpus, extra_flags=extra_flags, trust_flags=True)
        assert trusted == with_compile_options(arguments, trust_flags=True)
    with pytest.raises(UntrustedError, match="imported"):
        recorded_arguments("results", "evil:Evil-v0", {}, corpus=None, trust_flags=False)


def test_a_recorded_trust_is_ignored(tmp_path: Path, calls: Path) -> None:
    folder = tmp_path / "trace"
    assert run("trace", INLINE, "--corpus", calls, "--output", folder).exit_code == 0
    assert run("validate", folder).exit_code == 0
    meta = json.loads((folder / "meta.json").read_text())
    meta["arguments"] |= {"compile_options": {"extra_flags": ["-load", "./evil.so"], "trust_flags": True}}
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(UntrustedError, match=r"'-load'.*--trust-flags, trust_flags=True"):
        run("validate", folder)
