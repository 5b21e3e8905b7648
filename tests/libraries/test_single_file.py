"""Single-file scripts in the manner of CleanRL: thunks, Gymnasium's wrappers and vectors, a network of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

pytestmark = [pytest.mark.libraries, pytest.mark.usefixtures("nothing_is_left")]


ENVS, STEPS = 2, 12


def thunk(name: str, arguments: dict[str, Any], number: int, videos: Path | None) -> Callable[[], gym.Env[Any, Any]]:
    """Return a function that makes an environment as such scripts do; `--capture-video` records the first one."""

    def make() -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any]
        if videos is not None and number == 0:
            env = gym.make(name, render_mode="rgb_array", **arguments)
            env = gym.wrappers.RecordVideo(env, str(videos))
        else:
            env = gym.make(name, **arguments)
        env = gym.wrappers.RecordEpisodeStatistics(env)
        if isinstance(env.action_space, gym.spaces.Box):  # as the scripts for continuous actions go on
            env = gym.wrappers.ClipAction(gym.wrappers.FlattenObservation(env))
            env = gym.wrappers.NormalizeReward(gym.wrappers.NormalizeObservation(env), gamma=0.99)
        env.action_space.seed(number)
        return env

    return make


def network(inputs: int, outputs: int) -> Any:
    """A small network behind a layer that tames what is not normalized."""
    return torch.nn.Sequential(torch.nn.LayerNorm(inputs), torch.nn.Linear(inputs, 8), torch.nn.Linear(8, outputs))


@pytest.mark.parametrize("captured", [False, True], ids=["plain", "capture-video"])
def test_a_script_collects_and_learns(name: str, captured: bool, short: dict[str, Any], tmp_path: Path) -> None:
    if captured:
        pytest.importorskip("PIL", reason="pictures need the extra render")
        pytest.importorskip("moviepy", reason="gymnasium writes videos with moviepy")
    arguments = short | {"observation": "vector"}
    videos = tmp_path / "videos" if captured else None
    envs = gym.vector.SyncVectorEnv([thunk(name, arguments, number, videos) for number in range(ENVS)])
    space: Any = envs.single_action_space
    discrete = isinstance(space, gym.spaces.Discrete)
    torch.manual_seed(0)
    inputs = int(np.prod(envs.single_observation_space.shape or ()))
    actor, critic = network(inputs, int(space.n) if discrete else int(np.prod(space.shape))), network(inputs, 1)

    def distribution(observations: Any) -> Any:
        said = actor(observations)
        if discrete:
            return torch.distributions.Categorical(logits=said)
        return torch.distributions.Independent(torch.distributions.Normal(said, 1.0), 1)

    seen, taken, gained, returns = [], [], [], []
    observations: Any
    rewards: Any
    terminated: Any
    truncated: Any
    observations, _ = envs.reset(seed=1)
    for _ in range(STEPS):
        seen.append(torch.tensor(observations, dtype=torch.float32))
        with torch.no_grad():
            taken.append(distribution(seen[-1]).sample())
        observations, rewards, terminated, truncated, infos = envs.step(taken[-1].numpy())
        gained.append(torch.tensor(rewards, dtype=torch.float32))
        if "episode" in infos:
            returns += infos["episode"]["r"][infos["_episode"]].tolist()
        assert (terminated | truncated).shape == (ENVS,)
    envs.close()

    assert len(returns) > 0
    assert np.isfinite(returns).all()
    batch = torch.cat(seen)
    before = [parameter.clone() for parameter in actor.parameters()]
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=0.01)
    advantages = torch.cat(gained) - critic(batch)[:, 0]
    loss = advantages.square().mean() - (distribution(batch).log_prob(torch.cat(taken)) * advantages.detach()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    assert torch.isfinite(loss)
    assert any((one != other).any() for one, other in zip(before, actor.parameters(), strict=True))
    if videos is not None:
        assert list(videos.glob("*.mp4"))
