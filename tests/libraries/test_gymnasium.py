"""Gymnasium's own checker and wrappers, as its documentation shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.wrappers import HumanRendering, RecordEpisodeStatistics, RecordVideo

pytestmark = [pytest.mark.libraries, pytest.mark.usefixtures("nothing_is_left")]


def test_an_episode_becomes_a_video(name: str, short: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="pictures need the extra render")
    pytest.importorskip("moviepy", reason="gymnasium writes videos with moviepy")
    made = gym.make(name, render_mode="rgb_array", **short)
    env: Any = RecordVideo(RecordEpisodeStatistics(made), str(tmp_path / "videos"))
    _, info = env.reset(seed=1)
    over = False
    while not over:
        *_, terminated, truncated, info = env.step(env.action_space.sample())
        over = terminated or truncated
    assert info["episode"]["l"] > 0
    env.close()
    videos = list((tmp_path / "videos").glob("*.mp4"))
    assert len(videos) == 1
    assert videos[0].stat().st_size > 1000


def test_an_episode_is_shown_in_a_window(name: str, short: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL", reason="pictures need the extra render")
    pytest.importorskip("pygame", reason="gymnasium shows windows with pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env: Any = HumanRendering(gym.make(name, render_mode="rgb_array", **short))
    env.reset(seed=1)
    env.step(env.action_space.sample())
    assert env.window is not None
    assert min(env.window.get_size()) > 100
    env.close()
