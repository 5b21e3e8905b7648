"""PPO or DQN of stable-baselines3 learns to inline from labels in a minute, without a compiler; then clang judges it.

Several agents share the minute. The policy is the mean of their networks, and decides otherwise than the rule
`threshold:5` only where it is sure.

pip install '.[learn]'   # in a clone of mlgo-gym
python bandit.py [LEVEL] [ALGORITHM] [FILE] [SECONDS] [SEED] [CORPUS] [MARGIN]
mlgo-gym evaluate mlgo/Inline-v0 --corpus builtin@LEVEL --split test --policy mlp:FILE
"""

from mlgo_gym.extras import require_libraries

require_libraries("learn", "stable_baselines3", "torch")

import sys
import time
from typing import Any

import gymnasium as gym
import torch
from hyperparameters import hyperparams
from policy_iteration import mean
from stable_baselines3 import DQN, PPO
from torch import nn

from mlgo_gym import evaluate, with_margin
from mlgo_gym.integrations import Normalization
from mlgo_gym.integrations.pytorch import read_sequential
from mlgo_gym.integrations.sb3 import VecEnvAdapter

ALGORITHMS = {"PPO": PPO, "DQN": DQN}


def make_agent(algorithm: str, level: str, seed: int, split: str = "train") -> tuple[Any, Normalization]:
    """Return an agent on the bundled labels of a level, and the normalization of its observations."""
    settings = dict(hyperparams[f"mlgo/InlineBandit-v0 {algorithm}"])
    settings["policy_kwargs"] = {**settings["policy_kwargs"], "activation_fn": nn.ReLU}
    envs = gym.make_vec(
        "mlgo_gym:mlgo/InlineBandit-v0",
        num_envs=int(settings.pop("n_envs")),
        autoreset_mode="SameStep",
        labels=level,
        callee_features=True,
        normalize=True,
        split=split,
    )
    agent = ALGORITHMS[algorithm](env=VecEnvAdapter(envs), **settings, seed=seed, device="cpu")
    bandit: Any = envs.unwrapped
    return agent, bandit.normalization


def preference(agent: Any) -> nn.Sequential:
    """Return a network with one output: that of inlining the call minus that of keeping it."""
    policy = agent.policy
    if isinstance(agent, DQN):
        layers = list(policy.q_net.q_net)
    else:
        layers = [*policy.mlp_extractor.policy_net, policy.action_net]
    *hidden, last = layers
    difference = nn.Linear(last.in_features, 1)
    difference.weight, difference.bias = (
        nn.Parameter((values[1:] - values[:1]).detach()) for values in (last.weight, last.bias)
    )
    return nn.Sequential(*hidden, difference)


def main(
    level: str = "Os",
    algorithm: str = "PPO",
    file: str = "bandit.safetensors",
    seconds: str = "60",
    seed: str = "0",
    corpus: str = "builtin@{level}",
    margin: str = "",
) -> None:
    """Train, and print a table of the policy and clang on test modules."""
    torch.set_num_threads(1)  # the network is too small for more
    settings = hyperparams["bandit"]
    count = settings["n_networks"]
    networks, labels = [], 0
    for number in range(count):
        agent, normalization = make_agent(algorithm, level, count * int(seed) + number)
        end = time.process_time() + float(seconds) / count
        agent.learn(10**9, callback=lambda *_, end=end: time.process_time() < end)
        networks.append(preference(agent))
        labels += agent.num_timesteps
    network = read_sequential(mean(networks), normalization)
    with_margin(network, float(margin or settings["margin"][algorithm]), "threshold:5").save(file)
    print(f"{labels:,} labels in {seconds} s")
    policies = {"trained": f"mlp:{file}", "clang": "default"}
    modules = corpus.format(level=level)
    print(evaluate("mlgo/Inline-v0", corpus=f"{modules}:test", policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
