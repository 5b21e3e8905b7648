"""PPO of stable-baselines3 learns to inline, and is measured on modules that it has not seen.

pip install 'mlgo-gym[cli,evaluation,sb3]'
python sb3_ppo.py [CORPUS] [STEPS] [FILE]
mlgo-gym evaluate mlgo/Inline-v0 --policy sb3:FILE
"""

import sys
from pathlib import Path

import gymnasium as gym
from stable_baselines3 import PPO

import mlgo_gym  # noqa: F401 - registers the environments
from mlgo_gym.corpus import open_corpus
from mlgo_gym.evaluation import evaluate
from mlgo_gym.policies.sb3 import save_sb3
from mlgo_gym.toolchain import find_toolchain
from mlgo_gym.wrappers import NormalizeFeatures, fit_normalization


def main(corpus: str = "builtin", steps: str = "20000", file: str = "sb3_ppo.zip") -> None:
    """Train for a number of decisions, and print a table of the policy before, after, and clang."""
    modules = open_corpus(corpus, toolchain=find_toolchain())
    inner = gym.make("mlgo/Inline-v0", corpus=modules.split("train"))
    normalization = fit_normalization(inner, observations=min(int(steps), 5_000))
    env = NormalizeFeatures(inner, normalization)
    trained, untrained = Path(file), Path(file).with_suffix(".untrained.zip")

    model = PPO("MlpPolicy", env, n_steps=min(int(steps), 1024), gamma=1.0, ent_coef=0.01, seed=0, device="cpu")
    save_sb3(model, untrained, env.feature_names, normalization)
    model.learn(int(steps))
    save_sb3(model, trained, env.feature_names, normalization)
    env.close()

    policies = {"untrained": f"sb3:{untrained}", "trained": f"sb3:{trained}", "clang": "default"}
    print(evaluate("mlgo/Inline-v0", corpus=modules.split("test"), policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
