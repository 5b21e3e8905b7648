"""PPO in one file that knows which decision saved which bytes, or does not, for comparison.

The size of a module is one number for hundreds of decisions. With `credit=True` it is taken apart by function and call,
and `CreditRewards` makes a reward for each decision of it. So every decision answers for itself alone, and what the
others of its module did is no noise. With the reward `module` each decision has that of the whole module instead; all
else is the same, the number of compiles too. It starts from a network that has learned by imitation what clang does,
and keeps the checkpoint that is best on validation modules, the start among them.

pip install 'mlgo-gym[cli,mlp,training]'
python ppo_credit.py [CORPUS] [COMPILES] [FILE] [credit or module] [SEED]
mlgo-gym evaluate mlgo/Inline-v0 --policy mlp:FILE
"""

import sys
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import distributions, nn

from mlgo_gym import BestCheckpoint, evaluate, imitate, open_corpus
from mlgo_gym.adapters.pytorch import read_sequential, sequential
from mlgo_gym.wrappers import CreditRewards, NormalizeFeatures

UPDATE_STEPS = 1024
UPDATE_EPOCHS = 4
MINIBATCHES = 4
LEARNING_RATE = 1e-4  # small: what is good already is soon spoiled
CLIP = 0.2
LABEL_SMOOTHING = 0.05  # how often what has been imitated is not done: what is learned from
CHECKS = 5  # checkpoints


def main(
    corpus: str = "builtin",
    compiles: str = "200",
    file: str = "ppo_credit.safetensors",
    reward: str = "credit",
    seed: str = "0",
) -> None:
    """Learn from clang, train for a number of compiles, and print a table of the policy before, after, and clang."""
    modules = open_corpus(corpus)
    train, valid, test = (modules.split(part) for part in ("fit", "valid", "test"))
    with_credit = {"credit": True, "module": False}[reward]
    inner = gym.make("mlgo_gym:mlgo/Inline-v0", corpus=train, credit=with_credit)
    # It sees clang's own choice, so it is with clang everywhere; and it doubts, so it tries other things now and then.
    clone = imitate(inner, rounds=1, episodes=8, exclude_features=(), label_smoothing=LABEL_SMOOTHING, seed=int(seed))
    assert clone.normalization is not None
    env: gym.Env[Any, Any] = NormalizeFeatures(CreditRewards(inner) if with_credit else inner, clone.normalization)

    torch.manual_seed(int(seed))
    actor = sequential(clone)
    critic = nn.Sequential(nn.Linear(len(clone.features), 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=LEARNING_RATE)

    def save(name: str) -> str:
        """Write the actor to a file, and return the policy's specification."""
        read_sequential(actor, clone).save(name)
        return f"mlp:{name}"

    imitation = save(f"{file}.imitation")
    best = BestCheckpoint("mlgo/Inline-v0", valid, file)
    best.offer(imitation)
    observation, info = env.reset(seed=int(seed))
    met = {info["module"]}
    done, check = int(with_credit), 0  # credit compiles a module once more when it first meets it

    while done < int(compiles):
        # Whole episodes: only their ends tell what each decision was worth.
        observations, actions, log_probs = [], [], []
        rewards: list[float] = []
        while len(rewards) < UPDATE_STEPS and done < int(compiles):
            with torch.no_grad():
                choice = distributions.Categorical(logits=actor(torch.from_numpy(observation)))
            action = choice.sample()
            observations.append(torch.from_numpy(observation))
            actions.append(action)
            log_probs.append(choice.log_prob(action))
            observation, whole, terminated, truncated, info = env.step(int(action))
            if terminated or truncated:
                # A compile that failed gives no credit, and nothing is learned from it.
                usual = [0.0 if truncated else float(whole)] * (len(actions) - len(rewards))
                rewards += info["rewards"].tolist() if "rewards" in info else usual
                observation, info = env.reset()
                done += 1 + (with_credit and info["module"] not in met)
                met.add(info["module"])

        # The reward of a decision is all that it is responsible for: nothing that comes later is added to it.
        seen, taken, before = (torch.stack(part[: len(rewards)]) for part in (observations, actions, log_probs))
        scaled = np.array(rewards, np.float32)
        targets = torch.from_numpy(scaled / max(float(scaled.std()), 1e-8))
        with torch.no_grad():
            gains = targets - critic(seen)[:, 0]
            gains = (gains - gains.mean()) / (gains.std() + 1e-8)

        # Learn from it, several times in random minibatches.
        for _ in range(UPDATE_EPOCHS):
            for batch in torch.randperm(len(seen)).chunk(MINIBATCHES):
                choice = distributions.Categorical(logits=actor(seen[batch]))
                ratio = (choice.log_prob(taken[batch]) - before[batch]).exp()
                clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
                policy_loss = -torch.min(ratio * gains[batch], clipped * gains[batch]).mean()
                value_loss = (critic(seen[batch])[:, 0] - targets[batch]).pow(2).mean() / 2
                loss = policy_loss + value_loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        if done >= (check + 1) * int(compiles) // CHECKS:
            check = CHECKS * done // int(compiles)
            change = best.offer(save(f"{file}.last"))
            print(f"{done} compiles: {change:+.2%} on validation modules, best {best.change:+.2%}")

    env.close()
    policies = {"imitation": imitation, "trained": best.policy, "clang": "default"}
    print(evaluate("mlgo/Inline-v0", corpus=test, policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
