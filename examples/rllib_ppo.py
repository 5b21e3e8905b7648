"""PPO of RLlib learns to inline with remote workers, and is measured on modules that it has not seen.

pip install 'mlgo-gym[cli,evaluation,mlp,rllib]'
python rllib_ppo.py [CORPUS] [STEPS] [FILE]
mlgo-gym evaluate mlgo/Inline-v0 --policy mlp:FILE
"""

import sys
from typing import Any

import gymnasium as gym
import ray
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env

from mlgo_gym.corpus import open_corpus
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies.network import Network
from mlgo_gym.wrappers import Normalization, NormalizeFeatures, fit_normalization

LAYERS = ("encoder.encoder.net.mlp.0", "encoder.encoder.net.mlp.2", "pi.net.mlp.0")


def make(config: dict[str, Any]) -> gym.Env[Any, Any]:
    """Return the environment, in whatever process this is: it fetches nothing, and opens the corpus by its name."""
    modules = open_corpus(config["corpus"], toolchain=find_toolchain()).split("train")
    return NormalizeFeatures(gym.make("mlgo_gym:mlgo/Inline-v0", corpus=modules), config["normalization"])


def save(algorithm: PPO, normalization: Normalization, file: str) -> str:
    """Write the network as one for `mlp:FILE`."""
    state = algorithm.get_module().get_state()
    network = Network.from_state(state, LAYERS, normalization.names, activation="tanh", normalization=normalization)
    network.save(file)
    return f"mlp:{file}"


def main(corpus: str = "builtin", steps: str = "20000", file: str = "rllib_ppo.safetensors") -> None:
    """Train for a number of decisions, and print a table of the policy before, after, and clang."""
    modules = open_corpus(corpus, toolchain=find_toolchain())
    inner = gym.make("mlgo_gym:mlgo/Inline-v0", corpus=modules.split("train"))
    normalization = fit_normalization(inner, observations=min(int(steps), 2_000))
    register_env("inline", make)
    ray.init(num_cpus=3, include_dashboard=False)
    batch = min(1024, int(steps))
    config = (
        PPOConfig()
        .environment("inline", env_config={"corpus": corpus, "normalization": normalization.to_json()})
        .env_runners(num_env_runners=2, rollout_fragment_length="auto")
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh"))
        .training(gamma=1.0, train_batch_size_per_learner=batch, minibatch_size=min(128, batch), num_epochs=4)
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    untrained = save(algorithm, normalization, f"{file}.untrained")
    for _ in range(max(1, int(steps) // batch)):
        algorithm.train()
    policies = {"untrained": untrained, "trained": save(algorithm, normalization, file), "clang": "default"}
    algorithm.stop()
    ray.shutdown()
    print(evaluate("mlgo/Inline-v0", corpus=modules.split("test"), policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
