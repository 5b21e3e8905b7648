"""MaskablePPO of sb3-contrib goes on from clang's choice of the live range that loses its register.

It starts from a network that imitates clang, never takes an illegal action, which would raise, and keeps the
checkpoint that is best on validation modules, the start among them.

pip install '.[learn]'   # in a clone of mlgo-gym
python maskable_ppo.py [CORPUS] [STEPS] [FILE]
mlgo-gym evaluate mlgo/RegAllocEvict-v0 --policy mlp:FILE
"""

from mlgo_gym.extras import require_libraries

require_libraries("learn", "sb3_contrib")

import sys
from pathlib import Path

import gymnasium as gym
from behaviour_cloning import clone
from sb3_contrib import MaskablePPO

from mlgo_gym import BestCheckpoint, evaluate, open_corpus
from mlgo_gym.integrations import NormalizeFeatures
from mlgo_gym.integrations.sb3 import read_sb3, start_sb3

CHECK = 4
"""Updates between two checkpoints."""


def main(corpus: str = "builtin:train", steps: str = "20000", file: str = "maskable_ppo.safetensors") -> None:
    """Learn from clang, train for a number of decisions, and print a table of the policy before, after, and clang."""
    modules = open_corpus(corpus)
    inner = gym.make("mlgo/RegAllocEvict-v0", corpus=modules.split("fit"), scope="function")
    start = clone(inner.unwrapped, "default", min(int(steps), 300))
    normalization = start.normalization
    assert normalization is not None
    env = NormalizeFeatures(inner, normalization)
    imitation, last = (Path(file).with_suffix(f".{name}.safetensors") for name in ("imitation", "last"))

    # Small steps and no bonus for entropy: what is good already is soon spoiled.
    rollout = min(int(steps), 1024)
    settings = {"n_steps": rollout, "batch_size": min(256, rollout), "n_epochs": 4, "gamma": 1.0}
    model = start_sb3(MaskablePPO, env, start, learning_rate=3e-5, ent_coef=0.0, seed=0, device="cpu", **settings)
    read_sb3(model, start).save(imitation)
    best = BestCheckpoint("mlgo/RegAllocEvict-v0", modules.split("valid"), file)
    best.offer(f"mlp:{imitation}")
    while model.num_timesteps < int(steps):
        model.learn(min(CHECK * rollout, int(steps) - model.num_timesteps), reset_num_timesteps=False)
        read_sb3(model, start).save(last)
        change = best.offer(f"mlp:{last}")
        print(f"{model.num_timesteps} decisions: {change:+.2%} on validation modules, best {best.change:+.2%}")
    env.close()

    policies = {"imitation": f"mlp:{imitation}", "trained": best.policy, "clang": "default"}
    print(evaluate("mlgo/RegAllocEvict-v0", corpus=modules.split("test"), policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
