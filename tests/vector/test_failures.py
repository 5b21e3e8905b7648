"""A compiler that crashes, stalls or chatters touches its own environment alone."""

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
    """Three environments that wait with the first decision of the module with nine."""
    made = make(INLINE, varied, error_reward=-3.0)
    made.reset(seed=1, options={"module": "calls"})
    yield made
    made.close()


@pytest.fixture
def faulty(varied: str, tmp_path: Path) -> dict[str, Any]:
    """The arguments of an environment whose clang crashes on a module, stalls on one, and fails on a baseline."""
    zig, mode = bundled_command()
    program = tmp_path / "faulty-clang"
    program.write_text(FAULTY.format(zig=zig, mode=mode))
    program.chmod(0o755)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name in ("calls", "crash", "stall"):
        shutil.copy(f"{varied}/calls.bc", folder / f"{name}.bc")
    # Another module, for the baseline of the same one would be known.
    shutil.copy(f"{varied}/mixed.bc", folder / "late.bc")
    return {"corpus": str(folder), "clang": str(program)}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits for compilers, one entry for each."""
    kept: list[float] = []
    wait = Wakeups.wait

    def counted(self: Wakeups, timeout: float, wanted: Container[int]) -> set[int]:
        kept.append(timeout)
        return wait(self, timeout, wanted)

    monkeypatch.setattr(Wakeups, "wait", counted)
    return kept


def test_a_crash_truncates_its_own_episode_and_says_why(envs: CompilerVectorEnv) -> None:
    end_clang(envs, 1)
    observations, rewards, terminations, truncations, info = envs.step([1, 1, 1])
    assert rewards.tolist() == [0.0, -3.0, 0.0]
    assert truncations.tolist() == [False, True, False]
    assert not terminations.any()
    assert not observations[1].any()
    assert info["error"]["kind"][1] == "signal"
    assert info["error"]["exit_status"][1] == -signal.SIGSEGV
    assert info["_error"].tolist() == [False, True, False]
    assert info["decision"][[0, 2]].tolist() == [1, 1]
    *_, info = envs.step([1, 1, 1])
    assert info["decision"].tolist() == [2, 0, 2]


def test_after_a_crash_the_next_episode_comes_in_the_same_step_where_that_is_wanted(varied: str) -> None:
    envs = make(INLINE, varied, 2, autoreset_mode="SameStep")
    envs.reset(options={"module": "calls"})
    end_clang(envs, 0)
    *_, truncations, info = envs.step([1, 1])
    assert truncations.tolist() == [True, False]
    assert info["decision"].tolist() == [0, 1]
    assert info["final_info"]["error"]["kind"][0] == "signal"
    envs.close()


def test_an_agent_that_thinks_for_longer_than_the_timeout_loses_nothing(
    varied: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    envs = make(INLINE, varied, 2)
    _, info = envs.reset(seed=1, options={"module": "calls"})
    thought = 0.0
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + thought)
    for _ in range(2):
        envs.send(info["default_action"])
        for sub_env in envs._sub_envs:
            assert sub_env.session is not None
            assert select.select(sub_env.session.descriptors(), [], [], 30.0)[0]
        thought += 1e6
        _, _, _, truncations, info = envs.recv()
        assert not truncations.any()
    envs.close()


def test_a_clang_that_stalls_is_ended_at_its_deadline_while_the_others_go_on(varied: str) -> None:
    envs = make(INLINE, varied, 3, batch_size=2, timeout=0.5)
    envs.reset(seed=1, options={"module": "calls"})
    pid = clang_of(envs, 0)
    os.kill(pid, signal.SIGSTOP)
    envs.send([1, 1, 1])
    came: list[int] = []
    while 0 not in came:
        *_, truncations, info = envs.recv()
        came = info["env_id"].tolist()
        if 0 not in came:
            assert sorted(came) == [1, 2]
            envs.send([1, 1])
    row = came.index(0)
    assert truncations[row]
    assert info["error"]["kind"][row] == "timeout"
    assert "within 0.5 s" in info["error"]["message"][row]
    assert not truncations[1 - row]
    assert not alive(pid)
    envs.close()


def test_where_failures_are_to_raise_the_others_lose_nothing(varied: str) -> None:
    envs = make(INLINE, varied, on_error="raise")
    envs.reset(options={"module": "calls"})
    end_clang(envs, 1)
    with pytest.raises(CompilerError, match=r"^environment 1: .*SIGSEGV"):
        envs.step([1, 1, 1])
    envs.async_reset(env_ids=[1], options={"module": "calls"})
    *_, info = envs.recv()
    assert info["decision"].tolist() == [1, 0, 1]
    envs.close()


def test_what_was_said_while_nobody_listened_does_not_spin(varied: str, waits: list[float]) -> None:
    envs = make(INLINE, varied, 2, batch_size=1, timeout=0.5, echo_reply=True)
    envs.reset(options={"module": "calls"})
    envs.send([1], [0])  # now the first has something on its standard error
    envs.recv()
    os.kill(clang_of(envs, 1), signal.SIGSTOP)
    waits.clear()
    envs.send([1], [1])
    assert envs.recv()[4]["error"]["kind"].tolist() == ["timeout"]
    assert len(waits) < 8
    decisions = 1
    while not envs.step([1], [0])[2][0]:
        decisions += 1
    assert decisions == 8
    envs.close()


def test_a_clang_that_ends_while_its_decision_waits_does_not_spin_and_is_reported_then(
    varied: str, waits: list[float]
) -> None:
    envs = make(INLINE, varied, 2, batch_size=1, timeout=0.5)
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


@pytest.mark.parametrize("prefetch", [0, 1])
def test_modules_on_which_clang_crashes_or_stalls_are_passed_over_and_reported(
    prefetch: int, faulty: dict[str, Any]
) -> None:
    envs = make(
        INLINE, num_envs=2, timeout=2.0, max_decisions=1, prefetch=prefetch, autoreset_mode="SameStep", **faulty
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
def test_asking_for_a_module_on_which_clang_fails_is_an_error(module: str, kind: str, faulty: dict[str, Any]) -> None:
    envs = make(INLINE, num_envs=2, timeout=2.0, **faulty)
    with pytest.raises(CompilerError) as caught:
        envs.reset(options={"module": ["calls", module]})
    assert caught.value.kind == kind
    assert envs.reset(options={"module": "calls"})[1]["decision"].tolist() == [0, 0]
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


def test_a_file_that_is_no_bitcode_is_passed_over(varied: str, tmp_path: Path) -> None:
    tmp_path.joinpath("text.bc").write_bytes(b"text")
    shutil.copy(f"{varied}/calls.bc", tmp_path)
    envs = make(INLINE, str(tmp_path), 8)
    _, info = envs.reset(seed=0)
    assert set(info["module"]) == {"calls"}
    assert info["_skipped"].any()
    with pytest.raises(CorpusError, match="LLVM bitcode was wanted"):
        envs.reset(options={"module": "text"})
    envs.close()


def test_a_clang_that_cannot_be_started_is_an_error(envs: CompilerVectorEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> int:
        raise PermissionError(13, "refused")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_spawn", refuse)
        with pytest.raises(CompilerError, match="cannot be started"):
            envs.reset(options={"reset_mask": np.array([True, False, False]), "module": "calls"})
    envs.async_reset(env_ids=[0])
    envs.send([1, 1], [1, 2])
    assert envs.recv()[4]["decision"].tolist() == [0, 1, 1]
