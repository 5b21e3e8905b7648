"""Hosts of a compiler: an environment, a vector environment, a fork, and `mlgo-clang`."""

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_gym import CompilerEnv, CompilerError, CompilerVectorEnv, MlgoError
from mlgo_gym.make_env import make_environment
from tests.fakes.compiles import FaultyClang
from tests.fakes.drive import finish
from tests.fakes.stepping import INLINE, make
from tests.faults.catalogue import ENDS, Outcome

DRIVER = Path(sys.executable).with_name("mlgo-clang")
SHORT, LONG = 1.0, 20.0
"""Timeouts in seconds: for a compiler that stalls, and for one that works on a busy machine."""

FAULTY = {"module": "faulty"}


@dataclass(frozen=True)
class FaultyCompiler:
    """A clang that fails on one module, a folder with `faulty` and `sound` of the same bitcode, and their source."""

    clang: FaultyClang
    corpus: str
    source: Path


def outcome_of_error(error: MlgoError) -> Outcome:
    if isinstance(error, CompilerError):
        return Outcome("reset", "CompilerError", error.kind, error.message, error.stderr)
    return Outcome("reset", type(error).__name__, "", str(error))


def outcome_of_info(info: dict[str, Any]) -> Outcome:
    if not info["error"]:
        assert info["text"] > 0
        return Outcome(ENDS)
    error = info["error"]
    return Outcome("step", "CompilerError", error["kind"], error["message"], error["stderr"])


def take_steps(env: CompilerEnv, info: dict[str, Any]) -> tuple[Outcome, dict[str, Any]]:
    last = finish(env, info)[-1]
    outcome = outcome_of_info(last.info)
    assert (last.terminated, last.truncated) == (outcome.kind != "timeout", outcome.kind == "timeout")
    # A learner bootstraps from the last observation of a truncated episode.
    assert last.observation.any() == last.truncated
    return outcome, last.info


def make_single(compiler: FaultyCompiler, timeout: float = LONG) -> CompilerEnv:
    arguments = {"corpus": compiler.corpus, "clang": compiler.clang.program, "compile_options": {"timeout": timeout}}
    return make_environment(INLINE, arguments)


def make_vector(compiler: FaultyCompiler, timeout: float = LONG) -> CompilerVectorEnv:
    options = {"timeout": timeout}
    return make(INLINE, compiler.corpus, 2, clang=compiler.clang.program, compile_options=options, prefetch=0)


def run_single(env: CompilerEnv) -> Outcome:
    try:
        _, info = env.reset(options=FAULTY)
    except MlgoError as error:
        return outcome_of_error(error)
    return take_steps(env, info)[0]


def run_fork(env: CompilerEnv, info: dict[str, Any]) -> Outcome:
    try:
        copied = env.fork()
    except MlgoError as error:
        assert env.step(info["default_action"])[4]["decision_index"] == 1
        return outcome_of_error(error)
    assert copied.fork_method == "snapshot", copied.fork_reason
    outcome = take_steps(copied, info)[0]
    copied.reset(options={"module": "sound"})
    copied.close()
    # Each leaves a child of its own.
    assert replace(take_steps(env, info)[0], stderr="") == replace(outcome, stderr="")
    return outcome


def run_vector(envs: CompilerVectorEnv) -> Outcome:
    try:
        _, info = envs.reset(options={"module": ["sound", "faulty"]})
    except MlgoError as error:
        assert error.env_id == 1  # noqa: PT017 - it need not raise
        outcome = outcome_of_error(error)
        return replace(outcome, message=outcome.message.removeprefix("environment 1: "))
    while True:
        *_, terminations, truncations, info = envs.step(info["default_action"])
        assert not truncations[0]
        if terminations[1] or truncations[1]:
            row: dict[str, Any] = {"text": info["text"][1] if "text" in info else 0, "error": {}}
            if "kind" in info["error"] and info["error"]["_kind"][1]:
                assert truncations[1] == (info["error"]["kind"][1] == "timeout") != terminations[1]
                row["error"] = {key: info["error"][key][1] for key in ("kind", "message", "exit_status", "stderr")}
            return outcome_of_info(row)


def run_sound_vector(envs: CompilerVectorEnv) -> None:
    _, info = envs.reset(options={"module": ["sound", "faulty"]})
    over = np.zeros(2, bool)
    while not over.any():
        *_, over, truncations, info = envs.step(info["default_action"])
        assert not truncations.any()
    assert len(set(info["text"].tolist())) == 1


def run_driver(compiler: FaultyCompiler, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(DRIVER), f"--mlgo-clang={compiler.clang.program}", *arguments, "-Oz", "-c", "faulty.c"]
    return subprocess.run(
        command, cwd=compiler.source.parent, capture_output=True, text=True, check=False, timeout=LONG
    )
