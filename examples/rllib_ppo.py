"""PPO of RLlib with remote workers learns to inline at -Os from random weights, from the credit of each decision.

It keeps the best checkpoint on validation modules, and compares it with clang and a rule on test modules.

pip install '.[learn]' 'ray[rllib]'   # in a clone of mlgo-gym
python rllib_ppo.py [CORPUS] [STEPS] [FILE] [SEED]
mlgo-gym evaluate mlgo/Inline-v0 --corpus builtin@Os --split test --policy mlp:FILE
"""

import sys
from typing import Any

import gymnasium as gym
import numpy as np
import ray
from hyperparameters import CHECKPOINTS, CORPUS, HIDDEN_FEATURES, MAX_DECISIONS, hyperparams
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env

from mlgo_gym import BestCheckpoint, evaluate, open_corpus
from mlgo_gym.integrations import NormalizeFeatures, fit_normalization
from mlgo_gym.policies.network import Network, Normalization

SETTINGS = hyperparams["mlgo/Inline-v0"]
REWARD_SCALE = 1000.0
"""A decision saves a small share of a module; the value function learns larger numbers faster."""


def make(config: dict[str, Any]) -> gym.Env[Any, Any]:
    """Return the environment in a remote worker."""
    modules = open_corpus(config["corpus"]).split("fit")
    env = gym.make("mlgo_gym:mlgo/Inline-v0", corpus=modules, credit=True, max_decisions=MAX_DECISIONS)
    return NormalizeFeatures(env, config["normalization"])


class GiveCredit(ConnectorV2):  # type: ignore[misc]  # Ray has no types
    """Gives each decision of an episode its own reward, which comes with the last info."""

    def __call__(self, *, batch: Any, episodes: Any, **_: Any) -> Any:
        """Overwrite the rewards of whole episodes."""
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            rewards = REWARD_SCALE * np.array(episode.get_infos(-1)["rewards"])
            episode.set_rewards(new_data=rewards, at_indices=slice(0, len(rewards)))  # PPO has added a step at the end
        return batch


def trained_network(algorithm: Any, normalization: Normalization) -> Network:
    """Return the actor as a network, which `mlp:FILE` and builds take."""
    state = {name: np.asarray(array) for name, array in algorithm.get_module().get_state().items()}
    layers = ["encoder.actor_encoder.net.mlp.0", "encoder.actor_encoder.net.mlp.2", "pi.net.mlp.0"]
    return Network.from_state(state, layers, normalization.names, activation="tanh", normalization=normalization)


def main(corpus: str = CORPUS, steps: str = "100000", file: str = "rllib_ppo.safetensors", seed: str = "0") -> None:
    """Train for a number of decisions, and print a table of the best checkpoint, a rule, and clang."""
    modules = open_corpus(corpus)
    with gym.make("mlgo_gym:mlgo/Inline-v0", corpus=modules.split("fit")) as env:
        normalization = fit_normalization(env, observations=min(20_000, int(steps)))
    normalization = normalization.select([name for name in normalization.names if name not in HIDDEN_FEATURES])
    register_env("inline", make)
    ray.init(num_cpus=3, include_dashboard=False)
    batch = min(SETTINGS["n_envs"] * SETTINGS["n_steps"], int(steps))
    config = PPOConfig().environment("inline", env_config={"corpus": corpus, "normalization": normalization.to_json()})
    config.env_runners(num_env_runners=2, batch_mode="complete_episodes", sample_timeout_s=600)
    config.rl_module(
        model_config=DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False)
    )
    config.learners(num_learners=0).debugging(seed=int(seed))
    config.training(
        learner_connector=lambda *_: GiveCredit(),
        lr=SETTINGS["learning_rate"],
        entropy_coeff=SETTINGS["ent_coef"],
        gamma=SETTINGS["gamma"],
        lambda_=SETTINGS["gae_lambda"],
        train_batch_size_per_learner=batch,
        minibatch_size=min(SETTINGS["batch_size"], batch),
        num_epochs=SETTINGS["n_epochs"],
    )
    algorithm = config.build_algo()
    best = BestCheckpoint("mlgo/Inline-v0", modules.split("valid"), file)
    done, checks = 0, 0
    while done < int(steps):
        done = int(algorithm.train()["env_runners"]["num_env_steps_sampled_lifetime"])
        if done >= (checks + 1) * int(steps) // CHECKPOINTS:
            checks += 1
            trained_network(algorithm, normalization).save(f"{file}.last")
            change = best.offer(f"mlp:{file}.last")
            print(f"{done} decisions: {change:+.2%} on validation modules, best {best.change:+.2%}", flush=True)
    algorithm.stop()
    ray.shutdown()
    policies = {"trained": best.policy, "threshold": "threshold:5", "clang": "default"}
    print(evaluate("mlgo/Inline-v0", corpus=modules.split("test"), policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
