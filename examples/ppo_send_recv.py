"""PPO in one file that waits for no slow module: eight clangs, and the four that are ready first are answered.

In lock step every environment waits for the slowest. Here `recv()` returns whoever is ready, in any order, and `send()`
answers those; so each environment has a path of its own, and an update learns from the pieces of paths that are done.
It starts from a network that has learned by imitation what clang does, and keeps the checkpoint that is best on
validation modules, the start among them.

pip install 'mlgo-gym[cli,mlp,training]'
python ppo_send_recv.py [CORPUS] [STEPS] [FILE]
mlgo-gym evaluate mlgo/Inline-v0 --policy mlp:FILE
"""

import sys
from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np
import torch
from torch import distributions, nn

from mlgo_gym.adapters.pytorch import read_sequential, sequential
from mlgo_gym.corpus import open_corpus
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.training import BestCheckpoint, imitate
from mlgo_gym.vector_env import as_vector

NUM_ENVS = 8
BATCH_SIZE = 4
UPDATE_STEPS = 1024
UPDATE_EPOCHS = 4
MINIBATCHES = 4
LEARNING_RATE = 1e-4  # small: what is good already is soon spoiled
GAE_LAMBDA = 0.95
CLIP = 0.2
DOUBT = 0.05  # how often what has been imitated is not done: what is learned from
CHECK = 4  # updates between two checkpoints


@dataclass
class Path:
    """What one environment has gone through since the last update: its decisions, and one more that is pending.

    An action is kept when it is sent, its reward when the environment is next received, after any number of others. So
    `rewards` and `ends` are one shorter than the rest while an answer is awaited.
    """

    observations: list[torch.Tensor] = field(default_factory=list)
    actions: list[torch.Tensor] = field(default_factory=list)
    log_probs: list[torch.Tensor] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    ends: list[bool] = field(default_factory=list)

    def take_finished(
        self,
    ) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor], list[float], list[float]]:
        """Return observations, actions, their log probabilities, advantages and targets, and keep what is pending.

        The value of the pending decision stands for all that follows the last reward.
        """
        count = len(self.rewards)
        advantages = [0.0] * count
        advantage = 0.0
        for step in reversed(range(count)):
            # Undiscounted: rewards come at the end of an episode.
            goes_on = not self.ends[step]
            following = self.values[step + 1] if goes_on else 0.0
            delta = self.rewards[step] + following - self.values[step]
            advantage = delta + goes_on * GAE_LAMBDA * advantage
            advantages[step] = advantage
        targets = [gain + value for gain, value in zip(advantages, self.values, strict=False)]
        finished = self.observations[:count], self.actions[:count], self.log_probs[:count], advantages, targets
        for column in (self.observations, self.actions, self.log_probs, self.values, self.rewards, self.ends):
            del column[:count]
        return finished


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """Return a network with two hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, 64),
        nn.Tanh(),
        nn.Linear(64, 64),
        nn.Tanh(),
        nn.Linear(64, outputs),
    )


def main(corpus: str = "builtin", steps: str = "20000", file: str = "ppo_send_recv.safetensors") -> None:
    """Learn from clang, train for a number of decisions, and print a table of the policy before, after, and clang."""
    modules = open_corpus(corpus, toolchain=find_toolchain())
    train, valid, test = (modules.split(part) for part in ("fit", "valid", "test"))

    single = gym.make("mlgo_gym:mlgo/Inline-v0", corpus=train)
    # It sees clang's own choice, so it is with clang everywhere; and it doubts, so it tries other things now and then.
    clone = imitate(single, rounds=1, episodes=8, leave_out=(), doubt=DOUBT)
    single.close()
    normalization = clone.normalization
    assert normalization is not None

    # In SameStep mode the observation that comes with an episode's end is the next episode's first.
    envs = as_vector(
        gym.make_vec(
            "mlgo/Inline-v0",
            num_envs=NUM_ENVS,
            batch_size=BATCH_SIZE,
            corpus=train,
            autoreset_mode="SameStep",
        )
    )
    columns = normalization.columns(envs.feature_names)

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
    update_steps = min(UPDATE_STEPS, int(steps))
    paths = [Path() for _ in range(NUM_ENVS)]
    awaits_reward = np.zeros(NUM_ENVS, np.bool_)
    envs.async_reset(seed=0)

    updates = max(1, int(steps) // update_steps)
    for update in range(1, updates + 1):
        # Answer whoever is ready, until enough answers have their rewards.
        while sum(len(path.rewards) for path in paths) < update_steps:
            raw, rewards, terminated, truncated, info = envs.recv()
            ready = info["env_id"]
            for row, number in enumerate(ready):
                if awaits_reward[number]:  # what came first after the reset answers nothing
                    paths[number].rewards.append(float(rewards[row]))
                    paths[number].ends.append(bool(terminated[row] or truncated[row]))
            observations = torch.from_numpy(normalization(raw[:, columns]))
            with torch.no_grad():
                choice = distributions.Categorical(logits=actor(observations))
                values = critic(observations)[:, 0].tolist()
            actions = choice.sample()
            log_probs = choice.log_prob(actions)
            for row, number in enumerate(ready):
                path = paths[number]
                path.observations.append(observations[row])
                path.actions.append(actions[row])
                path.log_probs.append(log_probs[row])
                path.values.append(values[row])
            awaits_reward[ready] = True
            envs.send(actions.numpy(), ready)

        # What is finished is learned from; what is pending stays for the next update, chosen by the policy before it.
        finished = [path.take_finished() for path in paths]
        seen = torch.stack([item for piece in finished for item in piece[0]])
        taken = torch.stack([item for piece in finished for item in piece[1]])
        before = torch.stack([item for piece in finished for item in piece[2]])
        gains = torch.tensor([item for piece in finished for item in piece[3]])
        targets = torch.tensor([item for piece in finished for item in piece[4]])
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
            print(f"{update * update_steps} decisions: {change:+.2%} on validation modules, best {best.change:+.2%}")

    envs.close()
    policies = {"imitation": imitation, "trained": best.policy, "clang": "default"}
    print(evaluate("mlgo/Inline-v0", corpus=test, policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
