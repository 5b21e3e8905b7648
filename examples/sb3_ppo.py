"""PPO of stable-baselines3 goes on from clang's own choices, on one environment and on four at once.

It starts from a network that has learned by imitation what clang does, takes small steps, keeps the checkpoint that is
best on validation modules, the start among them, and is measured on modules that it never saw.

pip install 'mlgo-gym[cli,sb3,training]'
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
from mlgo_gym.adapters.sb3_start import start_sb3
from mlgo_gym.corpus import open_corpus
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies.sb3 import save_sb3
from mlgo_gym.training import BestCheckpoint, imitate
from mlgo_gym.wrappers import NormalizeFeatures, vector

ROLLOUT = 1024
"""Decisions between two updates."""

STEP = 1e-4
"""The size of a step: a third of the usual one, for what is good already is soon spoiled."""

DOUBT = 0.05
"""How often what has been imitated is not done: what is learned from."""

CHECK = 4
"""Updates between two checkpoints."""


def main(corpus: str = "builtin", steps: str = "20000", file: str = "sb3_ppo.zip") -> None:
    """Learn from clang, train twice for so many decisions, and print a table of both, the start, and clang."""
    modules = open_corpus(corpus, toolchain=find_toolchain())
    train, valid = modules.split("fit"), modules.split("valid")
    one = gym.make("mlgo/Inline-v0", corpus=train)
    four = gym.make_vec("mlgo/Inline-v0", num_envs=4, corpus=train, autoreset_mode="SameStep")
    # It sees clang's own choice, so it is with clang everywhere; and it doubts, so it tries other things now and then.
    clone = imitate(one, rounds=1, episodes=8, leave_out=(), doubt=DOUBT)
    normalization = clone.normalization
    assert normalization is not None
    rollout = min(int(steps), ROLLOUT)

    def model(env: GymEnv, envs: int) -> PPO:
        settings = {"n_steps": rollout // envs, "batch_size": min(256, rollout), "n_epochs": 4, "gamma": 1.0}
        return start_sb3(PPO, env, clone, learning_rate=STEP, ent_coef=0.0, seed=0, device="cpu", **settings)

    def save(agent: PPO, name: str) -> str:
        path = Path(file).with_suffix(f".{name}.zip")
        save_sb3(agent, path, clone.features, normalization)
        return f"sb3:{path}"

    def learn(agent: PPO, name: str) -> str:
        best = BestCheckpoint("mlgo/Inline-v0", valid, Path(file).with_suffix(f".{name}.zip") if name else file)
        best.offer(imitation)
        seconds = 0.0
        while agent.num_timesteps < int(steps):
            started = time.monotonic()
            agent.learn(min(CHECK * rollout, int(steps) - agent.num_timesteps), reset_num_timesteps=False)
            seconds += time.monotonic() - started
            change = best.offer(save(agent, "last"))
            print(f"{agent.num_timesteps} decisions: {change:+.2%} on validation modules, best {best.change:+.2%}")
        print(f"{agent.n_envs} at once: {agent.num_timesteps / seconds:.0f} decisions a second")
        return best.policy

    single = model(NormalizeFeatures(one, normalization), 1)
    several = model(VecEnvAdapter(vector.NormalizeFeatures(four, normalization)), 4)
    imitation = save(single, "imitation")
    policies = {
        "imitation": imitation,
        "single": learn(single, "single"),
        "vector": learn(several, ""),
        "clang": "default",
    }
    one.close()
    four.close()
    print(evaluate("mlgo/Inline-v0", corpus=modules.split("test"), policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
