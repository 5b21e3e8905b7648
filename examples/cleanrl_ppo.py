"""PPO in one file, in the manner of CleanRL: from random weights at -Os, some minutes on two cores.

Each decision has its own reward, its credit; decisions of episodes that end after a rollout are not learned from.

It keeps the best checkpoint on validation modules, and compares it with clang and a rule on test modules.

pip install '.[learn]'   # in a clone of mlgo-gym
python cleanrl_ppo.py [CORPUS] [STEPS] [FILE] [SEED]
mlgo-gym evaluate mlgo/Inline-v0 --corpus builtin@Os --split test --policy mlp:FILE
"""

from mlgo_gym.extras import require_libraries

require_libraries("learn", "torch")

import sys
import time

import gymnasium as gym
import numpy as np
import torch
from hyperparameters import CHECKPOINTS, CORPUS, HIDDEN_FEATURES, hyperparams
from torch import distributions, nn

from mlgo_gym import BestCheckpoint, evaluate, open_corpus
from mlgo_gym.integrations import fit_normalization, vector
from mlgo_gym.integrations.pytorch import read_sequential

SETTINGS = hyperparams["mlgo/Inline-v0"]
NUM_ENVS, ROLLOUT_STEPS = SETTINGS["n_envs"], SETTINGS["n_steps"]
CLIP, VALUE_WEIGHT, MAX_GRADIENT = 0.2, 0.5, 0.5
LARGEST_REWARD = 5.0  # in standard deviations


def layer(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    """Return a layer with orthogonal weights of a size, and biases of 0."""
    made = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(made.weight, gain)
    nn.init.zeros_(made.bias)
    return made


def mlp(inputs: int, outputs: int, gain: float) -> nn.Sequential:
    """Return a network with two hidden layers, whose last layer has weights of a size."""
    return nn.Sequential(layer(inputs, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, outputs, gain))


def learn(
    actor: nn.Sequential,
    critic: nn.Sequential,
    optimizer: torch.optim.Optimizer,
    seen: torch.Tensor,
    taken: torch.Tensor,
    before: torch.Tensor,
    rewards: torch.Tensor,
) -> None:
    """Update both networks on decisions, several times in random minibatches.

    `seen` are observations, `taken` actions, and `before` their log probabilities when they were taken.
    """
    parameters = [*actor.parameters(), *critic.parameters()]
    targets = (rewards / (rewards.std() + 1e-8)).clamp(-LARGEST_REWARD, LARGEST_REWARD)
    with torch.no_grad():
        gains = targets - critic(seen)[:, 0]
    for _ in range(SETTINGS["n_epochs"]):
        for batch in torch.randperm(len(seen)).split(SETTINGS["batch_size"]):
            choice = distributions.Categorical(logits=actor(seen[batch]))
            ratio = (choice.log_prob(taken[batch]) - before[batch]).exp()
            gain = (gains[batch] - gains[batch].mean()) / (gains[batch].std() + 1e-8)
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            policy_loss = -torch.min(ratio * gain, clipped * gain).mean()
            value_loss = (critic(seen[batch])[:, 0] - targets[batch]).pow(2).mean()
            entropy = choice.entropy().mean()
            loss = policy_loss + VALUE_WEIGHT * value_loss - SETTINGS["ent_coef"] * entropy
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, MAX_GRADIENT)
            optimizer.step()


def main(
    corpus: str = CORPUS,
    steps: str = str(SETTINGS["n_timesteps"]),
    file: str = "cleanrl_ppo.safetensors",
    seed: str = "0",
) -> None:
    """Train for a number of decisions, and print a table of the best checkpoint, a rule, and clang."""
    modules = open_corpus(corpus)
    train, valid, test = (modules.split(part) for part in ("fit", "valid", "test"))
    with gym.make("mlgo/Inline-v0", corpus=train) as env:
        normalization = fit_normalization(env, observations=min(20_000, int(steps)))
    normalization = normalization.select([name for name in normalization.names if name not in HIDDEN_FEATURES])
    envs = vector.NormalizeFeatures(
        gym.make_vec("mlgo/Inline-v0", num_envs=NUM_ENVS, corpus=train, autoreset_mode="SameStep", credit=True),
        normalization,
    )

    torch.manual_seed(int(seed))
    features = len(normalization.names)
    actor, critic = mlp(features, 2, 0.01), mlp(features, 1, 1.0)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=SETTINGS["learning_rate"], eps=1e-5)
    best = BestCheckpoint("mlgo/Inline-v0", valid, file)
    rollout_steps = max(1, min(ROLLOUT_STEPS, int(steps) // NUM_ENVS))
    updates = max(1, int(steps) // (rollout_steps * NUM_ENVS))
    started = time.monotonic()
    first, _ = envs.reset(seed=int(seed))
    observation = torch.from_numpy(first)

    for update in range(1, updates + 1):
        # Act, and keep what is needed to learn from it.
        observations, actions, log_probs = [], [], []
        rewards = torch.full((rollout_steps, NUM_ENVS), torch.nan)
        for step in range(rollout_steps):
            with torch.no_grad():
                choice = distributions.Categorical(logits=actor(observation))
            action = choice.sample()
            following, _, _, _, info = envs.step(action.numpy())
            observations.append(observation)
            actions.append(action)
            log_probs.append(choice.log_prob(action))
            # The rewards of all decisions of an episode come with its last step.
            for row in np.flatnonzero(info.get("final_info", {}).get("_rewards", ())):
                credit = torch.tensor(info["final_info"]["rewards"][row][-step - 1 :])
                rewards[step + 1 - len(credit) : step + 1, row] = credit
            observation = torch.from_numpy(following)

        known = ~rewards.isnan().flatten()
        seen, taken, before = (torch.cat(part)[known] for part in (observations, actions, log_probs))
        learn(actor, critic, optimizer, seen, taken, before, rewards.flatten()[known])

        if update % max(1, updates // CHECKPOINTS) == 0 or update == updates:
            read_sequential(actor, normalization).save(f"{file}.last")
            change = best.offer(f"mlp:{file}.last")
            minutes, done = (time.monotonic() - started) / 60, update * rollout_steps * NUM_ENVS
            print(
                f"{minutes:4.1f} min, {done:7,} decisions: {change:+.2%} on validation modules, "
                f"best {best.change:+.2%}",
                flush=True,
            )

    envs.close()
    policies = {"trained": best.policy, "threshold": "threshold:5", "clang": "default"}
    print(evaluate("mlgo/Inline-v0", corpus=test, policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
