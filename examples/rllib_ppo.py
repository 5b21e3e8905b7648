"""PPO of RLlib goes on from clang's own choices with remote workers; measured on modules that it has not seen.

It starts from a network that has learned by imitation what clang does, takes small steps, and keeps the checkpoint
that is best on validation modules, the start among them.

pip install 'mlgo-gym[cli,mlp,rllib,training]'
python rllib_ppo.py [CORPUS] [STEPS] [FILE]
mlgo-gym evaluate mlgo/Inline-v0 --policy mlp:FILE
"""

import sys
from typing import Any

import gymnasium as gym
import ray
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.tune.registry import register_env

from mlgo_gym import BestCheckpoint, Network, evaluate, imitate, open_corpus
from mlgo_gym.adapters.rllib import read_rllib, rllib_model, start_rllib
from mlgo_gym.wrappers import NormalizeFeatures

CHECK = 4
"""Updates between two checkpoints."""


def make(config: dict[str, Any]) -> gym.Env[Any, Any]:
    """Return the environment, in whatever process this is: it fetches nothing, and opens the corpus by its name."""
    modules = open_corpus(config["corpus"]).split("fit")
    return NormalizeFeatures(gym.make("mlgo_gym:mlgo/Inline-v0", corpus=modules), config["normalization"])


def save(algorithm: PPO, like: Network, file: str) -> str:
    """Write the network as one for `mlp:FILE`."""
    read_rllib(algorithm, like).save(file)
    return f"mlp:{file}"


def main(corpus: str = "builtin", steps: str = "20000", file: str = "rllib_ppo.safetensors") -> None:
    """Learn from clang, train for a number of decisions, and print a table of the policy before, after, and clang."""
    modules = open_corpus(corpus)
    inner = gym.make("mlgo_gym:mlgo/Inline-v0", corpus=modules.split("fit"))
    # It sees clang's own choice, so it is with clang everywhere; and it doubts, so it tries other things now and then.
    clone = imitate(inner, rounds=1, episodes=8, exclude_features=(), label_smoothing=0.05)
    assert clone.normalization is not None
    register_env("inline", make)
    ray.init(num_cpus=3, include_dashboard=False)
    batch = min(1024, int(steps))
    config = (
        PPOConfig()
        .environment("inline", env_config={"corpus": corpus, "normalization": clone.normalization.to_json()})
        .env_runners(num_env_runners=2, rollout_fragment_length="auto", sample_timeout_s=600)
        .rl_module(model_config=rllib_model(clone))
        .training(
            lr=1e-4,
            entropy_coeff=0.0,
            gamma=1.0,
            train_batch_size_per_learner=batch,
            minibatch_size=min(128, batch),
            num_epochs=4,
        )
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    start_rllib(algorithm, clone)
    imitation = save(algorithm, clone, f"{file}.imitation")
    best = BestCheckpoint("mlgo/Inline-v0", modules.split("valid"), file)
    best.offer(imitation)
    updates = max(1, int(steps) // batch)
    for number in range(1, updates + 1):
        algorithm.train()
        if number % CHECK == 0 or number == updates:
            change = best.offer(save(algorithm, clone, f"{file}.last"))
            print(f"{number * batch} decisions: {change:+.2%} on validation modules, best {best.change:+.2%}")
    policies = {"imitation": imitation, "trained": best.policy, "clang": "default"}
    algorithm.stop()
    ray.shutdown()
    print(evaluate("mlgo/Inline-v0", corpus=modules.split("test"), policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
