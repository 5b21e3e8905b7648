"""Tianshou by its own vector of environments, which stacks the infos of all."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("tianshou", reason="tianshou is not installed")

from tianshou.data import Batch
from tianshou.env import DummyVectorEnv

pytestmark = [pytest.mark.libraries, pytest.mark.usefixtures("nothing_is_left")]


def test_its_vector_steps_and_stacks_numeric_infos(name: str, short: dict[str, Any]) -> None:
    envs = DummyVectorEnv([lambda: gym.make(name, info="numeric", **short)] * 2)
    _, infos = envs.reset(seed=0)
    ended = 0
    for _ in range(8):
        _, rewards, terminated, truncated, infos = envs.step(np.array([space.sample() for space in envs.action_space]))
        assert rewards.shape == (2,)
        assert Batch.stack([Batch(info) for info in infos]).shape[0] == 2
        over = np.flatnonzero(terminated | truncated)
        ended += len(over)
        if len(over):
            envs.reset(over)
    assert ended > 0
    envs.close()
