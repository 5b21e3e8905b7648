"""Reproducers of crashes and wrong objects: kept, and repeated by one command."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.compiler.limits import Limits
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.episode.reproducer import (
    FILE,
    FOLDER_VARIABLE,
    MODULE,
    SCRIPT,
    compile_reproducer,
    keep_reproducer,
    read_reproducer,
    reproduce,
)
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from mlgo_gym.testing import running_compile
from tests.conftest import MakeBitcode

CRASHES = """#!/bin/sh
case "$*" in *{when}*) echo "Assertion failed: not today" >&2; kill -ABRT $$ ;; esac
exec {compiler} "$@"
"""


def clang_that_crashes(folder: Path, when: str) -> str:
    """Make a program that is the bundled clang, and crashes where its command line has a word."""
    program = folder / "crashing-clang"
    program.write_text(CRASHES.format(when=when, compiler=" ".join(bundled_command())))
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where crashes are kept."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture(scope="module")
def pressure(make_bitcode: MakeBitcode) -> Path:
    """A module in which registers are scarce."""
    return make_bitcode("pressure.c")


def crash(env: RegAllocEvictEnv) -> dict[str, Any]:
    """Evict what must not be evicted, at which clang 20 and newer crash; return what is said of it."""
    _, info = env.reset(seed=0)
    env.step(info["default_action"])
    error: dict[str, Any] = running_compile(env).answer(struct.pack("<q", 40))["error"]
    return error


def test_a_crash_of_the_real_clang_is_kept_once_and_happens_again(
    pressure: Path, kept: Path, tmp_path: Path, toolchain: Toolchain
) -> None:
    env = RegAllocEvictEnv(corpus=str(pressure), compile_options={"preoptimize": False})
    folder = Path(crash(env)["reproducer"])
    assert Path(crash(env)["reproducer"]) == folder
    env.close()
    assert list(kept.iterdir()) == [folder]
    found = read_reproducer(folder)
    assert (found.module, found.exit_status, found.advisors) == ("pressure", -11, ("eviction",))
    assert [int.from_bytes(bytes.fromhex(answer), "little") for answer in found.answers][-1] == 40
    assert (folder / MODULE).read_bytes() == pressure.read_bytes()
    assert reproduce(folder, toolchain).reproduced
    done = CliRunner().invoke(application, ["reproduce", str(folder)])
    assert (done.exit_code, "reproduced:" in done.output) == (0, True)
    alone = subprocess.run(["sh", folder / SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert alone.returncode == 128 + 11
    # It is compiled under the limits of its compilation.
    module = Module("pressure", folder / MODULE, ("-cc1", *found.flags[1:]))
    with pytest.raises(CompilerError):
        compile_reproducer(
            replace(found, advisors=(), answers=()), plan(module, toolchain, limits=Limits(memory=1e-8)), 60
        )


def test_a_crash_before_any_question_is_kept_too(calls: Path, kept: Path, tmp_path: Path) -> None:
    module = tmp_path / "module.bc"
    shutil.copy(calls, module)
    env = InlineEnv(corpus=str(module), clang=clang_that_crashes(tmp_path, "module.bc*inliner-interactive"))
    with pytest.raises(CompilerError, match="not today") as caught:
        env.reset(options={"module": "module"})
    env.close()
    folder = Path(str(caught.value.reproducer))
    assert folder.parent == kept
    assert read_reproducer(folder).answers == ()
    done = CliRunner().invoke(application, ["reproduce", str(folder), "--clang", "bundled"])
    assert (done.exit_code, "not reproduced:" in done.output) == (1, True)


def test_nothing_is_kept_where_nothing_is_to_be(pressure: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, "")
    env = RegAllocEvictEnv(corpus=str(pressure), compile_options={"preoptimize": False})
    assert "reproducer" not in crash(env)
    env.close()


def test_a_clang_that_somebody_killed_has_not_crashed(calls: Path, kept: Path) -> None:
    env = InlineEnv(corpus=str(calls))
    env.reset()
    os.kill(running_compile(env).pid, signal.SIGKILL)
    *_, truncated, info = env.step(1)
    assert truncated
    assert "reproducer" not in info["error"]
    assert not kept.exists()
    env.close()


def keep(module: Path, folder: Path) -> tuple[Path, bytes]:
    env = InlineEnv(corpus=str(module))
    compilation = env.compilation(env.corpus[0])
    count = sum(env.decisions(env.corpus[0]).values())
    env.close()
    reproducer = keep_reproducer(folder, compilation, [INLINING], [bytes(8)] * count, exit_status=0, message="as said")
    return reproducer, compile_reproducer(read_reproducer(reproducer), compilation, 30)


def test_the_script_runs_clang_alone_with_the_same_result(calls: Path, tmp_path: Path, toolchain: Toolchain) -> None:
    folder, made = keep(calls, tmp_path)
    done = subprocess.run(["sh", folder / SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (folder / "object.o").read_bytes() == made
    assert reproduce(folder, toolchain).reproduced
    assert "object of" in reproduce(folder, toolchain, bitcode=calls).description


@pytest.mark.parametrize("change", [{"format": 1}, {"answers": ["zz"]}, {"advisors": ["nobody"]}, {"flags": "x"}])
def test_what_is_no_reproducer_is_refused(change: dict[str, object], calls: Path, tmp_path: Path) -> None:
    folder, _ = keep(calls, tmp_path)
    (folder / FILE).write_text(json.dumps(json.loads((folder / FILE).read_bytes()) | change))
    with pytest.raises(MlgoError, match="expected a reproducer in"):
        read_reproducer(folder)
