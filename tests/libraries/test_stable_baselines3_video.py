"""Stable-Baselines3's recorder of videos, which holds what it opens until Python collects it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="the extra sb3 is not installed")
pytest.importorskip("moviepy", reason="videos are written with moviepy")
pytest.importorskip("PIL", reason="pictures need the extra render")

from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecVideoRecorder

pytestmark = pytest.mark.libraries


def test_its_recorder_writes_a_video(name: str, short: dict[str, Any], tmp_path: Path) -> None:
    inner = make_vec_env(name, n_envs=1, seed=0, env_kwargs=short)
    env = VecVideoRecorder(inner, str(tmp_path), record_video_trigger=lambda step: step == 0, video_length=3)
    env.reset()
    for _ in range(5):
        env.step(np.array([env.action_space.sample()]))
    env.close()
    assert [path.suffix for path in tmp_path.iterdir()] == [".mp4"]
