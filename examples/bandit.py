"""PPO or DQN of stable-baselines3 learns to inline from labels in a minute, without a compiler; then clang judges it.

pip install 'mlgo-gym[cli,sb3,training]'
python bandit.py [LEVEL] [ALGORITHM] [FILE] [SECONDS] [SEED] [CORPUS]
mlgo-gym evaluate mlgo/Inline-v0 --corpus builtin@LEVEL --split test --policy sb3:FILE
"""

import sys
import time
from typing import Any

import gymnasium as gym
import torch
from hyperparameters import hyperparams
from stable_baselines3 import DQN, PPO

from mlgo_gym import evaluate
from mlgo_gym.adapters.sb3 import VecEnvAdapter, save_sb3

ALGORITHMS = {"PPO": PPO, "DQN": DQN}


def main(
    level: str = "Os",
    algorithm: str = "PPO",
    file: str = "bandit.zip",
    seconds: str = "60",
    seed: str = "0",
    corpus: str = "builtin@{level}",
) -> None:
    """Train, and print a table of the policy and clang on test modules."""
    torch.set_num_threads(1)  # the network is too small for more
    settings = dict(hyperparams[f"mlgo/InlineBandit-v0 {algorithm}"])
    envs = gym.make_vec(
        "mlgo_gym:mlgo/InlineBandit-v0",
        num_envs=int(settings.pop("n_envs")),
        labels=level,
        callee_features=True,
        normalize=True,
    )
    agent = ALGORITHMS[algorithm](env=VecEnvAdapter(envs), **settings, seed=int(seed), device="cpu")
    end = time.monotonic() + float(seconds)
    agent.learn(10**9, callback=lambda *_: time.monotonic() < end)
    bandit: Any = envs.unwrapped
    save_sb3(agent, file, bandit.feature_names, bandit.normalization)
    print(f"{agent.num_timesteps:,} labels in {seconds} s")
    policies = {"trained": f"sb3:{file}", "clang": "default"}
    modules = corpus.format(level=level)
    print(evaluate("mlgo/Inline-v0", corpus=f"{modules}:test", policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
