"""PPO in one file, top to bottom, in the manner of CleanRL: four clangs at once, and a network for `mlp:FILE`.

It starts from a network that has learned by imitation what clang does, takes small steps, and keeps the checkpoint
that is best on validation modules, the start among them.

pip install 'mlgo-gym[cli,mlp,training]'
python cleanrl_ppo.py [CORPUS] [STEPS] [FILE]
mlgo-gym evaluate mlgo/Inline-v0 --policy mlp:FILE
"""

import sys

import gymnasium as gym
import torch
from torch import distributions, nn

from mlgo_gym.adapters.pytorch import read_sequential, sequential
from mlgo_gym.corpus import open_corpus
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.training import BestCheckpoint, imitate
from mlgo_gym.wrappers import vector

NUM_ENVS = 4
ROLLOUT_STEPS = 256
UPDATE_EPOCHS = 4
MINIBATCHES = 4
LEARNING_RATE = 1e-4  # small: what is good already is soon spoiled
GAE_LAMBDA = 0.95
CLIP = 0.2
DOUBT = 0.05  # how often what has been imitated is not done: what is learned from
CHECK = 4  # updates between two checkpoints


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """Return a network with two hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, 64),
        nn.Tanh(),
        nn.Linear(64, 64),
        nn.Tanh(),
        nn.Linear(64, outputs),
    )


def main(corpus: str = "builtin", steps: str = "20000", file: str = "cleanrl_ppo.safetensors") -> None:
    """Learn from clang, train for a number of decisions, and print a table of the policy before, after, and clang."""
    modules = open_corpus(corpus, toolchain=find_toolchain())
    train, valid, test = (modules.split(part) for part in ("fit", "valid", "test"))

    single = gym.make("mlgo_gym:mlgo/Inline-v0", corpus=train)
    # It sees clang's own choice, so it is with clang everywhere; and it doubts, so it tries other things now and then.
    clone = imitate(single, rounds=1, episodes=8, leave_out=(), doubt=DOUBT)
    single.close()
    normalization = clone.normalization
    assert normalization is not None
    envs = vector.NormalizeFeatures(
        gym.make_vec("mlgo/Inline-v0", num_envs=NUM_ENVS, corpus=train, autoreset_mode="SameStep"),
        normalization,
    )

    torch.manual_seed(0)
    features = len(normalization.names)
    actor, critic = sequential(clone), mlp(features, 1)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=LEARNING_RATE)

    def save(name: str) -> str:
        """Write the actor to a file, and return the policy's specification."""
        read_sequential(actor, clone).save(name)
        return f"mlp:{name}"

    imitation = save(f"{file}.imitation")
    best = BestCheckpoint("mlgo/Inline-v0", valid, file)
    best.offer(imitation)
    rollout_steps = max(1, min(ROLLOUT_STEPS, int(steps) // NUM_ENVS))
    updates = max(1, int(steps) // (rollout_steps * NUM_ENVS))
    first, _ = envs.reset(seed=0)
    observation = torch.from_numpy(first)

    for update in range(1, updates + 1):
        # Act, and keep what is needed to learn from it.
        observations, actions, log_probs, values, rewards, ends = [], [], [], [], [], []
        for _ in range(rollout_steps):
            with torch.no_grad():
                choice = distributions.Categorical(logits=actor(observation))
                value = critic(observation)[:, 0]
            action = choice.sample()
            following, reward, terminated, truncated, _ = envs.step(action.numpy())
            observations.append(observation)
            actions.append(action)
            log_probs.append(choice.log_prob(action))
            values.append(value)
            rewards.append(torch.from_numpy(reward).float())
            ends.append(torch.from_numpy(terminated | truncated).float())
            observation = torch.from_numpy(following)

        # Generalized advantage estimation, undiscounted: rewards come at the end of an episode.
        advantages = [torch.zeros(NUM_ENVS)] * rollout_steps
        advantage = torch.zeros(NUM_ENVS)
        with torch.no_grad():
            next_value = critic(observation)[:, 0]
        for step in reversed(range(rollout_steps)):
            goes_on = 1 - ends[step]
            delta = rewards[step] + goes_on * next_value - values[step]
            advantage = delta + GAE_LAMBDA * goes_on * advantage
            advantages[step] = advantage
            next_value = values[step]

        # Learn from it, several times in random minibatches.
        seen, taken, before = torch.cat(observations), torch.cat(actions), torch.cat(log_probs)
        gains = torch.cat(advantages)
        targets = gains + torch.cat(values)
        for _ in range(UPDATE_EPOCHS):
            for batch in torch.randperm(len(seen)).chunk(MINIBATCHES):
                choice = distributions.Categorical(logits=actor(seen[batch]))
                ratio = (choice.log_prob(taken[batch]) - before[batch]).exp()
                gain = (gains[batch] - gains[batch].mean()) / (gains[batch].std() + 1e-8)
                clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
                policy_loss = -torch.min(ratio * gain, clipped * gain).mean()
                value_loss = (critic(seen[batch])[:, 0] - targets[batch]).pow(2).mean() / 2
                loss = policy_loss + value_loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        if update % CHECK == 0 or update == updates:
            change = best.offer(save(f"{file}.last"))
            done = update * rollout_steps * NUM_ENVS
            print(f"{done} decisions: {change:+.2%} on validation modules, best {best.change:+.2%}")

    envs.close()
    policies = {"imitation": imitation, "trained": best.policy, "clang": "default"}
    print(evaluate("mlgo/Inline-v0", corpus=test, policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
