"""The settings that the examples of PPO and DQN share, in the form that rl_zoo3 reads (`--conf-file`)."""

from typing import Any

CORPUS = ",".join(
    f"{name}@Os"
    for name in ("builtin", "zstd", "lz4", "brotli", "blosc", "hiredis", "box2d-py", "ujson", "kiwisolver", "fasttext")
)
"""Training and validation modules, C and C++: what is learned on one language helps little on the other."""

CLANGS, READY = 12, 4
"""Number of compilers of a training, and number of decisions in a step: those that are ready first."""

MAX_DECISIONS = 512
"""Decisions of an episode in TorchRL and RLlib; clang takes later ones, so that one module does not fill a batch."""

CHECKPOINTS = 5
"""Checkpoints of a training; the best one on validation modules is kept."""

HIDDEN_FEATURES = ("inlining_default", "node_count", "edge_count")
"""Features that a learner is not shown: clang's own choice, which it would repeat, and those that identify a module."""

MODULE_REWARD: dict[str, Any] = {"gamma": 1.0, "gae_lambda": 0.97, "learning_rate": 3e-4, "ent_coef": 0.01}
"""Settings of PPO that differ with one reward per module, at its last decision, instead of credit."""

hyperparams: dict[str, dict[str, Any]] = {
    "mlgo/Inline-v0": {
        "policy": "MlpPolicy",
        "n_timesteps": 100_000,  # some minutes on two cores
        "n_envs": 8,  # clangs that compile while others wait for a decision
        "n_steps": 512,  # most episodes end within a rollout, and only these are learned from
        "batch_size": 512,
        "n_epochs": 4,
        "gamma": 0.0,  # each decision has its own credit
        "gae_lambda": 0.0,
        "learning_rate": 1e-3,
        "ent_coef": 0.003,
    },
    # Episodes of one step: nothing follows an action, so nothing is discounted or bootstrapped.
    "mlgo/InlineBandit-v0 PPO": {
        "policy": "MlpPolicy",
        "n_envs": 256,
        "n_steps": 32,
        "batch_size": 1024,
        "n_epochs": 2,
        "gamma": 0.0,
        "gae_lambda": 0.0,
        "learning_rate": 1e-3,
        "ent_coef": 0.1,  # the logits stay small enough for a margin
        "policy_kwargs": {"net_arch": [64, 32]},
    },
    "mlgo/InlineBandit-v0 DQN": {
        "policy": "MlpPolicy",
        "n_envs": 256,
        "buffer_size": 500_000,
        "learning_starts": 20_000,
        "batch_size": 1024,
        "train_freq": 1,
        "gradient_steps": 2,
        "gamma": 0.0,
        "learning_rate": 1e-3,
        "exploration_final_eps": 0.5,  # both actions of every label should be seen
        "policy_kwargs": {"net_arch": [64, 32]},
    },
    # `bandit.py` takes the mean of several agents; margins are in logits for PPO, and in rewards for DQN.
    # The margins were chosen on validation modules at -Oz.
    "bandit": {"n_networks": 4, "margin": {"PPO": 3.0, "DQN": 0.4}},
    # Not a library's algorithm: `policy_iteration.py`.
    "policy iteration": {
        "n_jobs": 2,  # processes that compile
        "n_modules": 64,  # labelled in a round
        "n_compiles": 12,  # of a module in a round, and the seconds that they take at most
        "n_seconds": 2.0,
        "normalization_observations": 5000,
        "n_networks": 4,  # whose mean is the policy
        "n_updates": 2000,  # of each of them in a round
        "batch_size": 1024,
        "learning_rate": 1e-3,
        "ent_coef": 0.003,
        "net_arch": [64, 32],
        "margin": 3.0,  # about a rule, with labels at the start
    },
}
