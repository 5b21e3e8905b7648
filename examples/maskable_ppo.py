"""MaskablePPO of sb3-contrib learns inlining and register allocation in one compile, at -Os from random weights.

A decision is one of three kinds, each with actions of its own: the mask allows those of the decision. The agent takes
the first decisions of each module, which are those of the inliner, and clang takes the later ones.

pip install 'mlgo-gym[cli,corpus,sb3]'
python maskable_ppo.py [CORPUS] [STEPS] [FILE] [SEED]
mlgo-gym evaluate mlgo/Joint-v0 --corpus builtin@Os --split test --max-decisions 512 --policy sb3:FILE
"""

import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from hyperparameters import CHECKPOINTS, CLANGS, CORPUS, HIDDEN_FEATURES, MAX_DECISIONS, READY, hyperparams
from sb3_contrib import MaskablePPO

from mlgo_gym import BestCheckpoint, evaluate, open_corpus
from mlgo_gym.adapters.sb3 import CreditAdvantages, VecEnvAdapter, save_sb3
from mlgo_gym.wrappers import fit_normalization, vector

SETTINGS = dict(hyperparams["mlgo/Inline-v0"])
STEPS, ROLLOUT = int(SETTINGS.pop("n_timesteps")), int(SETTINGS.pop("n_envs")) * int(SETTINGS.pop("n_steps"))
LIMIT = {"max_decisions": MAX_DECISIONS}


def main(corpus: str = CORPUS, steps: str = str(STEPS), file: str = "maskable_ppo.zip", seed: str = "0") -> None:
    """Train for a number of decisions, and print a table of the best checkpoint and clang."""
    torch.set_num_threads(1)  # the network is too small for more
    modules = open_corpus(corpus)
    train, valid, test = (modules.split(part) for part in ("fit", "valid", "test"))
    shown: dict[str, Any] = {"corpus": train, "observation": "vector", **LIMIT}
    with gym.make("mlgo/Joint-v0", **shown) as env:
        normalization = fit_normalization(env, observations=min(20_000, int(steps)))
    # A place in the vector has three names, `inlining | eviction | priority`.
    names = [name for name in normalization.names if name.split(" | ")[0] not in HIDDEN_FEATURES]
    normalization = normalization.select(names)
    options: dict[str, Any] = {"batch_size": READY, "autoreset_mode": "SameStep", "credit": True}
    envs = gym.make_vec("mlgo/Joint-v0", num_envs=CLANGS, **shown, **options)
    env = VecEnvAdapter(vector.NormalizeFeatures(envs, normalization))
    settings = {**SETTINGS, "n_steps": max(2, min(ROLLOUT, int(steps)) // READY)}
    agent = MaskablePPO(env=env, **settings, seed=int(seed), device="cpu", tensorboard_log="runs/tensorboard")

    best = BestCheckpoint("mlgo/Joint-v0", valid, file, env_kwargs=LIMIT)
    last, started = Path(file).with_suffix(".last.zip"), time.monotonic()
    while agent.num_timesteps < int(steps):
        agent.learn(max(1, int(steps) // CHECKPOINTS), reset_num_timesteps=False, callback=CreditAdvantages())
        save_sb3(agent, last, normalization.names, normalization)
        change = best.offer(f"sb3:{last}")
        minutes = (time.monotonic() - started) / 60
        print(
            f"{minutes:4.1f} min, {agent.num_timesteps:7,} decisions: {change:+.2%} on validation modules, "
            f"best {best.change:+.2%}",
            flush=True,
        )
    envs.close()
    policies = {"trained": best.policy, "clang": "default"}
    print(evaluate("mlgo/Joint-v0", corpus=test, policies=policies, env_kwargs=LIMIT))


if __name__ == "__main__":
    main(*sys.argv[1:])
