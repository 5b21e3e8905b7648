"""A compiler that crashes, stalls or writes much affects only its own environment."""

from __future__ import annotations

import os
import select
import shutil
import signal
import time
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym.errors import CompilerError, CorpusError
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.vector.wakeups import Wakeups
from mlgo_gym.vector_env import CompilerVectorEnv
from tests.traces import alive
from tests.vector.stepping import INLINE, clang_of, end_clang, make, row_info

pytestmark = pytest.mark.usefixtures("nothing_is_left")

FAULTY = """#!/bin/sh
case "$*" in
*crash.bc*) kill -SEGV $$ ;;
*stall.bc*) exec sleep 600 ;;
*late.bc*) case "$*" in *-interactive-channel-base*) ;; *) kill -SEGV $$ ;; esac ;;
esac
exec "{zig}" {mode} "$@"
"""


@pytest.fixture
def envs(varied: str) -> Iterator[CompilerVectorEnv]:
    """Three environments at the first of nine decisions."""
    made = make(INLINE, varied, error_reward=-3.0)
    made.reset(seed=1, options={"module": "calls"})
    yield made
    made.close()


@pytest.fixture
def faulty(varied: str, tmp_path: Path) -> dict[str, Any]:
    """Arguments of an environment whose clang crashes on one module, stalls on one, and fails on one baseline."""
    zig, mode = bundled_command()
    program = tmp_path / "faulty-clang"
    program.write_text(FAULTY.format(zig=zig, mode=mode))
    program.chmod(0o755)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name in ("calls", "crash", "stall"):
        shutil.copy(f"{varied}/calls.bc", folder / f"{name}.bc")
    # Another module: the baseline of the same one is cached.
    shutil.copy(f"{varied}/mixed.bc", folder / "late.bc")
    return {"corpus": str(folder), "clang": str(program)}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The timeouts of all waits for compilers."""
    kept: list[float] = []
    wait = Wakeups.wait

    def counted(self: Wakeups, timeout: float, numbers: Container[int]) -> set[int]:
        kept.append(timeout)
        return wait(self, timeout, numbers)

    monkeypatch.setattr(Wakeups, "wait", counted)
    return kept


def test_a_crash_truncates_its_own_episode_with_an_error(envs: CompilerVectorEnv) -> None:
    end_clang(envs, 1)
    observations, rewards, terminations, truncations, info = envs.step([1, 1, 1])
    assert rewards.tolist() == [0.0, -3.0, 0.0]
    assert truncations.tolist() == [False, True, False]
    assert not terminations.any()
    assert not observations[1].any()
    assert info["error"]["kind"][1] == "signal"
    assert info["error"]["exit_status"][1] == -signal.SIGSEGV
    assert info["_error"].tolist() == [False, True, False]
    assert info["decision_index"][[0, 2]].tolist() == [1, 1]
    *_, info = envs.step([1, 1, 1])
    assert info["decision_index"].tolist() == [2, 0, 2]


def test_with_same_step_the_next_episode_follows_a_crash_at_once(varied: str) -> None:
    envs = make(INLINE, varied, 2, autoreset_mode="SameStep")
    envs.reset(options={"module": "calls"})
    end_clang(envs, 0)
    *_, truncations, info = envs.step([1, 1])
    assert truncations.tolist() == [True, False]
    assert info["decision_index"].tolist() == [0, 1]
    assert info["final_info"]["error"]["kind"][0] == "signal"
    envs.close()


def test_an_agent_may_take_longer_than_the_timeout(varied: str, monkeypatch: pytest.MonkeyPatch) -> None:
    envs = make(INLINE, varied, 2)
    _, info = envs.reset(seed=1, options={"module": "calls"})
    elapsed = 0.0
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + elapsed)
    for _ in range(2):
        envs.send(info["default_action"])
        for sub_env in envs._sub_envs:
            assert sub_env.session is not None
            assert select.select(sub_env.session.descriptors(), [], [], 30.0)[0]
        elapsed += 1e6
        _, _, _, truncations, info = envs.recv()
        assert not truncations.any()
    envs.close()


def test_a_clang_that_stalls_is_killed_at_its_deadline_while_the_others_continue(varied: str) -> None:
    envs = make(INLINE, varied, 3, batch_size=2, compile_options={"timeout": 0.5})
    envs.reset(seed=1, options={"module": "calls"})
    pid = clang_of(envs, 0)
    os.kill(pid, signal.SIGSTOP)
    envs.send([1, 1, 1])
    received: list[int] = []
    while 0 not in received:
        *_, truncations, info = envs.recv()
        received = info["env_id"].tolist()
        if 0 not in received:
            assert sorted(received) == [1, 2]
            envs.send([1, 1])
    row = received.index(0)
    assert truncations[row]
    assert info["error"]["kind"][row] == "timeout"
    assert "within 0.5 s" in info["error"]["message"][row]
    assert not truncations[1 - row]
    assert not alive(pid)
    envs.close()


def test_an_error_that_is_raised_leaves_the_other_environments_intact(varied: str) -> None:
    envs = make(INLINE, varied, error_reward=None)
    envs.reset(options={"module": "calls"})
    end_clang(envs, 1)
    with pytest.raises(CompilerError, match=r"^environment 1: .*SIGSEGV"):
        envs.step([1, 1, 1])
    envs.async_reset(env_ids=[1], options={"module": "calls"})
    *_, info = envs.recv()
    assert info["decision_index"].tolist() == [1, 0, 1]
    envs.close()


def test_output_of_a_clang_whose_decision_is_pending_does_not_spin(varied: str, waits: list[float]) -> None:
    envs = make(
        INLINE,
        varied,
        2,
        batch_size=1,
        compile_options={"timeout": 0.5, "echo_reply": True},
    )
    envs.reset(options={"module": "calls"})
    envs.send([1], [0])  # it writes to its standard error
    envs.recv()
    os.kill(clang_of(envs, 1), signal.SIGSTOP)
    waits.clear()
    envs.send([1], [1])
    assert envs.recv()[4]["error"]["kind"].tolist() == ["timeout"]
    assert len(waits) < 8
    decisions = ended = 0
    while not ended:
        envs.send([1], [0])
        decisions, ended = decisions + 1, envs.recv()[2][0]
    assert decisions == 8
    envs.close()


def test_a_clang_that_ends_while_its_decision_is_pending_does_not_spin(varied: str, waits: list[float]) -> None:
    envs = make(INLINE, varied, 2, batch_size=1, compile_options={"timeout": 0.5})
    envs.reset(options={"module": "calls"})
    end_clang(envs, 0)
    os.kill(clang_of(envs, 1), signal.SIGSTOP)
    waits.clear()
    envs.send([1], [1])
    assert envs.recv()[4]["error"]["kind"].tolist() == ["timeout"]
    assert len(waits) < 8
    envs.send([1], [0])
    *_, info = envs.recv()
    assert info["error"]["kind"].tolist() == ["signal"]
    envs.close()


@pytest.mark.parametrize("prefetch", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_modules_on_which_clang_crashes_or_stalls_are_skipped_and_reported(
    prefetch: int, faulty: dict[str, Any]
) -> None:
    envs = make(
        INLINE,
        num_envs=2,
        compile_options={"timeout": 2.0},
        max_decisions=1,
        prefetch=prefetch,
        autoreset_mode="SameStep",
        **faulty,
    )
    skipped: dict[str, str] = {}
    _, info = envs.reset(seed=0)
    for _ in range(6):
        assert set(info["module"]) <= {"calls", "late"}
        for row in range(2):
            skipped |= row_info(info, row).get("skipped", {})
        *_, info = envs.step([0, 0])
    envs.close()
    assert set(skipped) == {"crash", "stall"}
    assert "SIGSEGV" in skipped["crash"]
    assert "within 2 s" in skipped["stall"]


@pytest.mark.parametrize(("module", "kind"), [("crash", "signal"), ("stall", "timeout")])
def test_a_named_module_on_which_clang_fails_is_an_error(module: str, kind: str, faulty: dict[str, Any]) -> None:
    envs = make(INLINE, num_envs=2, compile_options={"timeout": 2.0}, **faulty)
    with pytest.raises(CompilerError) as caught:
        envs.reset(options={"module": ["calls", module]})
    assert caught.value.kind == kind
    assert envs.reset(options={"module": "calls"})[1]["decision_index"].tolist() == [0, 0]
    envs.close()


def test_a_baseline_that_fails_truncates_too(faulty: dict[str, Any]) -> None:
    envs = make(INLINE, num_envs=2, max_decisions=1, **faulty)
    envs.reset(options={"module": ["calls", "late"]})
    *_, terminations, truncations, info = envs.step([0, 0])
    assert (terminations.tolist(), truncations.tolist()) == ([True, False], [False, True])
    assert info["error"]["kind"][1] == "signal"
    envs.close()


def test_a_corpus_of_nothing_but_failures_is_an_error_each_time(broken: Path) -> None:
    envs = make(INLINE, str(broken), 2)
    for _ in range(2):
        with pytest.raises(CompilerError, match="Invalid encoding"):
            envs.reset()
    envs.close()


def test_a_file_that_is_no_bitcode_is_skipped(varied: str, tmp_path: Path) -> None:
    tmp_path.joinpath("text.bc").write_bytes(b"text")
    shutil.copy(f"{varied}/calls.bc", tmp_path)
    envs = make(INLINE, str(tmp_path), 8)
    _, info = envs.reset(seed=0)
    assert set(info["module"]) == {"calls"}
    assert info["_skipped"].any()
    with pytest.raises(CorpusError, match="expected LLVM bitcode"):
        envs.reset(options={"module": "text"})
    envs.close()


def test_a_clang_that_cannot_be_started_is_an_error(envs: CompilerVectorEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> int:
        raise PermissionError(13, "refused")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_spawn", refuse)
        with pytest.raises(CompilerError, match="cannot start"):
            envs.reset(options={"reset_mask": np.array([True, False, False]), "module": "calls"})
    envs.async_reset(env_ids=[0])
    envs.send([1, 1], [1, 2])
    assert envs.recv()[4]["decision_index"].tolist() == [0, 1, 1]
