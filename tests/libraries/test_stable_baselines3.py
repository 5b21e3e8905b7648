"""Stable-Baselines3 and sb3-contrib by the first lines of their documentation: an id, and no word of ours."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("stable_baselines3", reason="the extra sb3 is not installed")
pytest.importorskip("sb3_contrib", reason="the extra sb3 is not installed")

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env

pytestmark = [pytest.mark.libraries, pytest.mark.usefixtures("nothing_is_left")]


TINY: dict[str, Any] = {"n_steps": 8, "batch_size": 8, "n_epochs": 1, "seed": 0, "device": "cpu"}


def policy_for(space: gym.Space[Any]) -> str:
    return "MultiInputPolicy" if isinstance(space, gym.spaces.Dict) else "MlpPolicy"


def test_ppo_learns_in_make_vec_env_and_is_evaluated(name: str, short: dict[str, Any], tmp_path: Path) -> None:
    env = make_vec_env(name, n_envs=2, seed=0, env_kwargs=short)
    watched = make_vec_env(name, n_envs=1, seed=1, env_kwargs=short)
    callback = EvalCallback(
        watched,
        eval_freq=8,
        n_eval_episodes=2,
        best_model_save_path=str(tmp_path),
        log_path=str(tmp_path),
        verbose=0,
    )
    model: Any = PPO(policy_for(env.observation_space), env, **TINY)
    model.learn(32, callback=callback)
    env.close()
    watched.close()
    assert len(model.ep_info_buffer) > 0
    assert {path.name for path in tmp_path.iterdir()} == {"best_model.zip", "evaluations.npz"}
    again = PPO.load(tmp_path / "best_model.zip", device="cpu")
    assert again.observation_space == env.observation_space
