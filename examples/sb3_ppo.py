"""PPO of stable-baselines3 learns to inline, on one environment and on four at once; measured on modules it never saw.

pip install 'mlgo-gym[cli,evaluation,sb3]'
python sb3_ppo.py [CORPUS] [STEPS] [FILE]
mlgo-gym evaluate mlgo/Inline-v0 --policy sb3:FILE
"""

import sys
import time
from pathlib import Path

import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.type_aliases import GymEnv

import mlgo_gym  # noqa: F401 - registers the environments
from mlgo_gym.adapters.sb3 import VecEnvAdapter
from mlgo_gym.corpus import open_corpus
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies.sb3 import save_sb3
from mlgo_gym.wrappers import NormalizeFeatures, fit_normalization, vector

ROLLOUT = 1024
"""Decisions between two updates."""


def main(corpus: str = "builtin", steps: str = "20000", file: str = "sb3_ppo.zip") -> None:
    """Train twice for a number of decisions, and print a table of the policy before, after, and clang."""
    modules = open_corpus(corpus, toolchain=find_toolchain())
    train = modules.split("train")
    one = gym.make("mlgo/Inline-v0", corpus=train)
    four = gym.make_vec("mlgo/Inline-v0", num_envs=4, corpus=train, autoreset_mode="SameStep")
    normalization = fit_normalization(one, observations=min(int(steps), 5_000))
    rollout = min(int(steps), ROLLOUT)

    def model(env: GymEnv, envs: int) -> PPO:
        return PPO("MlpPolicy", env, n_steps=rollout // envs, gamma=1.0, ent_coef=0.01, seed=0, device="cpu")

    def save(agent: PPO, name: str) -> str:
        path = Path(file).with_suffix(f".{name}.zip") if name else Path(file)
        save_sb3(agent, path, normalization.names, normalization)
        return f"sb3:{path}"

    def learn(agent: PPO, name: str) -> str:
        started = time.monotonic()
        agent.learn(int(steps))
        print(f"{agent.n_envs} at once: {agent.num_timesteps / (time.monotonic() - started):.0f} decisions a second")
        return save(agent, name)

    single = model(NormalizeFeatures(one, normalization), 1)
    several = model(VecEnvAdapter(vector.NormalizeFeatures(four, normalization)), 4)
    policies = {
        "untrained": save(single, "untrained"),
        "single": learn(single, "single"),
        "vector": learn(several, ""),
        "clang": "default",
    }
    one.close()
    four.close()
    print(evaluate("mlgo/Inline-v0", corpus=modules.split("test"), policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
