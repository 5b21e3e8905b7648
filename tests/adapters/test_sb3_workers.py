"""Failing workers report their errors."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv

from mlgo_gym.errors import CompilerError, CorpusError, MlgoError

pytest.importorskip("stable_baselines3", reason="the extra sb3 is not installed")

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from mlgo_gym.adapters import sb3_workers
from mlgo_gym.adapters.sb3_workers import SubprocVecEnv

pytestmark = pytest.mark.libraries

INLINE = "mlgo_gym:mlgo/Inline-v0"


def workers(**arguments: Any) -> SubprocVecEnv:
    made = make_vec_env(
        INLINE, 2, env_kwargs=arguments, vec_env_cls=SubprocVecEnv, vec_env_kwargs={"start_method": "fork"}
    )
    assert isinstance(made, SubprocVecEnv)
    return made


@pytest.fixture
def envs(varied: str) -> Iterator[SubprocVecEnv]:
    made = workers(corpus=varied, strict=True)
    yield made
    made.close()


def test_a_model_learns_with_workers(envs: SubprocVecEnv) -> None:
    model = PPO("MlpPolicy", envs, n_steps=8, batch_size=8, n_epochs=1, device="cpu")
    model.learn(16)
    assert envs.get_attr("metric") == ["text"] * 2
    assert len(envs.env_method("render")) == 2


def test_an_environment_that_cannot_be_made_is_reported() -> None:
    with pytest.raises(MlgoError, match=r"environment \d failed: MlgoError: expected observation as one of"):
        workers(observation="no-such-form")


def test_an_episode_that_cannot_start_is_reported() -> None:
    made = workers(corpus="no-such-corpus")
    with pytest.raises(MlgoError, match=r"environment \d failed: CorpusError: there is no corpus 'no-such-corpus'"):
        made.reset()
    made.close()


def test_a_failed_step_is_reported_with_its_environment(envs: SubprocVecEnv) -> None:
    envs.reset()
    with pytest.raises(MlgoError, match=r"environment 1 failed: ActionError: expected a legal action among"):
        envs.step(np.array([1, 7]))


def test_a_failed_method_is_reported(envs: SubprocVecEnv) -> None:
    with pytest.raises(MlgoError, match=r"environment 0 failed: ActionError: cannot fork"):
        envs.env_method("fork", indices=0)


def test_a_killed_worker_is_reported_with_its_exit_status(envs: SubprocVecEnv) -> None:
    envs.reset()
    os.kill(envs.processes[1].pid or 0, 9)
    envs.processes[1].join()
    with pytest.raises(MlgoError, match=r"without a report; the exit statuses are .*-9"):
        envs.step(np.array([1, 1]))


def test_a_worker_that_does_not_exit_is_killed(envs: SubprocVecEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    envs.reset()
    monkeypatch.setattr(sb3_workers, "_CLOSING_SECONDS", 0.1)
    os.kill(envs.processes[0].pid or 0, signal.SIGSTOP)
    envs.close()
    assert envs.processes[0].exitcode == -signal.SIGKILL


@pytest.mark.filterwarnings("ignore:.*ERROR")  # Gymnasium's report of its workers
@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"corpus": "no-such-corpus"}, CorpusError, "no corpus 'no-such-corpus'"),
        ({"corpus": "BROKEN", "error_reward": None}, CompilerError, "Invalid encoding"),
    ],
    ids=["corpus", "compiler"],
)
def test_gymnasiums_workers_raise_our_errors(
    arguments: dict[str, Any], kind: type[MlgoError], message: str, broken: Path
) -> None:
    options = {**arguments, "corpus": arguments["corpus"].replace("BROKEN", str(broken))}
    envs = AsyncVectorEnv([lambda: gym.make(INLINE, **options)] * 2)
    with pytest.raises(kind, match=message):
        envs.reset()
    envs.close(terminate=True)
