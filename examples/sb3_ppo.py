"""PPO of stable-baselines3 learns to inline at -Os from random weights, in minutes, from the credit of each decision.

It keeps the best checkpoint on validation modules, and compares it with clang and a rule on test modules.

pip install '.[learn]'   # in a clone of mlgo-gym
python sb3_ppo.py [CORPUS] [STEPS] [FILE] [SEED] [credit|module]
mlgo-gym evaluate mlgo/Inline-v0 --corpus builtin@Os --split test --policy mlp:FILE
"""

from mlgo_gym.extras import require_libraries

require_libraries("learn", "stable_baselines3", "torch")

import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from hyperparameters import CHECKPOINTS, CLANGS, CORPUS, HIDDEN_FEATURES, MODULE_REWARD, READY, hyperparams
from stable_baselines3 import PPO

from mlgo_gym import BestCheckpoint, evaluate, open_corpus
from mlgo_gym.integrations import fit_normalization, vector
from mlgo_gym.integrations.sb3 import CreditAdvantages, VecEnvAdapter, read_sb3

SETTINGS = dict(hyperparams["mlgo/Inline-v0"])
STEPS, ROLLOUT = int(SETTINGS.pop("n_timesteps")), int(SETTINGS.pop("n_envs")) * int(SETTINGS.pop("n_steps"))


def main(
    corpus: str = CORPUS,
    steps: str = str(STEPS),
    file: str = "sb3_ppo.safetensors",
    seed: str = "0",
    reward: str = "credit",
) -> None:
    """Train for a number of decisions, and print a table of the best checkpoint, a rule, and clang."""
    credit = {"credit": True, "module": False}[reward]
    # One reward per module goes back through the steps of its environment, so that these keep their order.
    ready = READY if credit else CLANGS
    torch.set_num_threads(1)  # the network is too small for more
    modules = open_corpus(corpus)
    train, valid, test = (modules.split(part) for part in ("fit", "valid", "test"))
    with gym.make("mlgo/Inline-v0", corpus=train) as env:
        normalization = fit_normalization(env, observations=min(20_000, int(steps)))
    normalization = normalization.select([name for name in normalization.names if name not in HIDDEN_FEATURES])
    options: dict[str, Any] = {"batch_size": ready, "autoreset_mode": "SameStep", "credit": credit}
    envs = gym.make_vec("mlgo/Inline-v0", num_envs=CLANGS, corpus=train, **options)
    env = VecEnvAdapter(vector.NormalizeFeatures(envs, normalization))
    settings = {**SETTINGS, **({} if credit else MODULE_REWARD), "n_steps": max(2, min(ROLLOUT, int(steps)) // ready)}
    agent = PPO(env=env, **settings, seed=int(seed), device="cpu", tensorboard_log="runs/tensorboard")

    callback = CreditAdvantages() if credit else None
    best = BestCheckpoint("mlgo/Inline-v0", valid, file)
    last, started = Path(file).with_suffix(".last.safetensors"), time.monotonic()
    while agent.num_timesteps < int(steps):
        agent.learn(max(1, int(steps) // CHECKPOINTS), reset_num_timesteps=False, callback=callback)
        read_sb3(agent, normalization).save(last)
        change = best.offer(f"mlp:{last}")
        minutes = (time.monotonic() - started) / 60
        print(
            f"{minutes:4.1f} min, {agent.num_timesteps:7,} decisions: {change:+.2%} on validation modules, "
            f"best {best.change:+.2%}",
            flush=True,
        )
    envs.close()
    policies = {"trained": best.policy, "threshold": "threshold:5", "clang": "default"}
    print(evaluate("mlgo/Inline-v0", corpus=test, policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
