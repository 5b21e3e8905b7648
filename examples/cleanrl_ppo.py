"""PPO in one file, top to bottom, in the manner of CleanRL: four clangs at once, and a network for `mlp:FILE`.

pip install 'mlgo-gym[cli,evaluation,mlp]' torch
python cleanrl_ppo.py [CORPUS] [STEPS] [FILE]
mlgo-gym evaluate mlgo/Inline-v0 --policy mlp:FILE
"""

import sys

import gymnasium as gym
import torch
from torch import distributions, nn

from mlgo_gym.corpus import open_corpus
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies.network import Network
from mlgo_gym.wrappers import fit_normalization, vector

ENVS, LENGTH, EPOCHS, BATCHES, CLIP, ENTROPY = 4, 256, 4, 4, 0.2, 0.01


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """Return a network with two hidden layers."""
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def main(corpus: str = "builtin", steps: str = "20000", file: str = "cleanrl_ppo.safetensors") -> None:
    """Train for a number of decisions, and print a table of the policy before, after, and clang."""
    train, test = (open_corpus(corpus, toolchain=find_toolchain()).split(part) for part in ("train", "test"))
    normal = fit_normalization(gym.make("mlgo_gym:mlgo/Inline-v0", corpus=train), observations=min(int(steps), 2_000))
    inner = gym.make_vec("mlgo/Inline-v0", num_envs=ENVS, corpus=train, autoreset_mode="SameStep")
    envs = vector.NormalizeFeatures(inner, normal)
    torch.manual_seed(0)
    actor, critic = mlp(len(normal.names), 2), mlp(len(normal.names), 1)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4)

    def save(name: str) -> str:
        state = {key: value.numpy() for key, value in actor.state_dict().items()}
        Network.from_state(state, "024", normal.names, activation="tanh", normalization=normal).save(name)
        return f"mlp:{name}"

    untrained = save(f"{file}.untrained")
    length = max(1, min(LENGTH, int(steps) // ENVS))
    now = torch.from_numpy(envs.reset(seed=0)[0])
    for _ in range(max(1, int(steps) // (length * ENVS))):
        rows = []
        for _ in range(length):
            with torch.no_grad():
                choice, value = distributions.Categorical(logits=actor(now)), critic(now)[:, 0]
            action = choice.sample()
            after, reward, terminated, truncated, _ = envs.step(action.numpy())
            reward, ended = torch.from_numpy(reward).float(), torch.from_numpy(terminated | truncated).float()
            rows.append((now, action, choice.log_prob(action), value, reward, ended))
            now = torch.from_numpy(after)
        seen, taken, log_probs, values, rewards, ends = (torch.stack(column) for column in zip(*rows, strict=True))
        with torch.no_grad():
            following, advantage, advantages = critic(now)[:, 0], torch.zeros(ENVS), torch.zeros_like(values)
        for t in reversed(range(length)):  # generalized advantage estimation, undiscounted: rewards come at the end
            delta = rewards[t] + (1 - ends[t]) * following - values[t]
            advantages[t] = advantage = delta + 0.95 * (1 - ends[t]) * advantage
            following = values[t]
        data = [part.flatten(0, 1) for part in (seen, taken, log_probs, advantages, advantages + values)]
        for batch in [part for _ in range(EPOCHS) for part in torch.randperm(len(data[0])).chunk(BATCHES)]:
            states, actions, before, gains, targets = (part[batch] for part in data)
            choice = distributions.Categorical(logits=actor(states))
            ratio, gains = (choice.log_prob(actions) - before).exp(), (gains - gains.mean()) / (gains.std() + 1e-8)
            gain = torch.min(ratio * gains, ratio.clamp(1 - CLIP, 1 + CLIP) * gains).mean()
            loss = (critic(states)[:, 0] - targets).pow(2).mean() / 2 - gain - ENTROPY * choice.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    envs.close()
    policies = {"untrained": untrained, "trained": save(file), "clang": "default"}
    print(evaluate("mlgo/Inline-v0", corpus=test, policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
