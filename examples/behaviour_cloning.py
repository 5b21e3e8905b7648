"""Behaviour cloning: a network imitates clang, which is a start for reinforcement learning.

pip install '.[learn]'   # in a clone of mlgo-gym
python behaviour_cloning.py [CORPUS] [EPISODES] [FILE]
mlgo-gym evaluate mlgo/Inline-v0 --policy mlp:FILE
"""

from mlgo_gym.extras import require_libraries

require_libraries("learn", "torch")

import sys
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from mlgo_gym import Network, evaluate, load_policy, open_corpus
from mlgo_gym.integrations.pytorch import read_sequential
from mlgo_gym.policies.network import Normalization


def clone(env: Any, expert: str, episodes: int) -> Network:
    """Return a network that imitates a policy in an environment with discrete actions."""
    policy, rows, actions = load_policy(expert, env), [], []
    for episode in range(episodes):
        (observation, info), over = env.reset(seed=episode), False
        while not over:
            actions.append(int(policy.act(observation, info)))
            rows.append(observation["observations"] if isinstance(observation, dict) else observation)
            observation, _, terminated, truncated, info = env.step(actions[-1])
            over = terminated or truncated
    normalization = Normalization.fit(np.stack(rows), env.feature_names)
    inputs, targets = torch.from_numpy(normalization(np.stack(rows))), torch.tensor(actions)
    torch.set_num_threads(1)  # the network is too small for more
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(inputs.shape[1], 64), nn.ReLU(), nn.Linear(64, env.action_space.n))
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    for _ in range(1000):
        batch = torch.randint(len(inputs), (512,))
        # A fully confident network would not explore.
        loss = nn.functional.cross_entropy(model(inputs[batch]), targets[batch], label_smoothing=0.02)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return read_sequential(model, normalization)


def main(corpus: str = "builtin", episodes: str = "16", file: str = "behaviour_cloning.safetensors") -> None:
    """Imitate clang on training modules, and compare both on test modules."""
    modules = open_corpus(corpus)
    with gym.make("mlgo/Inline-v0", corpus=modules.split("train")) as env:
        clone(env.unwrapped, "default", int(episodes)).save(file)
    print(evaluate("mlgo/Inline-v0", corpus=modules.split("test"), policies=["default", f"mlp:{file}"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
