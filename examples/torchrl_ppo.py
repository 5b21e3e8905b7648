"""PPO of TorchRL goes on from clang's own choices, and is measured on modules that it has not seen.

It starts from a network that has learned by imitation what clang does, takes small steps, and keeps the checkpoint
that is best on validation modules, the start among them.

pip install 'mlgo-gym[cli,mlp,torchrl,training]'
python torchrl_ppo.py [CORPUS] [STEPS] [FILE]
mlgo-gym evaluate mlgo/Inline-v0 --policy mlp:FILE
"""

import sys

import gymnasium as gym
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper
from torchrl.modules import OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from mlgo_gym import BestCheckpoint, evaluate, imitate, open_corpus
from mlgo_gym.adapters.pytorch import read_sequential, sequential
from mlgo_gym.wrappers import NormalizeFeatures

FRAMES, EPOCHS, BATCHES, STEP = 1024, 4, 4, 1e-4
CHECK = 4  # updates between two checkpoints


def main(corpus: str = "builtin", steps: str = "20000", file: str = "torchrl_ppo.safetensors") -> None:
    """Learn from clang, train for a number of decisions, and print a table of the policy before, after, and clang."""
    modules = open_corpus(corpus)
    inner = gym.make("mlgo_gym:mlgo/Inline-v0", corpus=modules.split("fit"))
    # It sees clang's own choice, so it is with clang everywhere; and it doubts, so it tries other things now and then.
    clone = imitate(inner, rounds=1, episodes=8, exclude_features=(), label_smoothing=0.05)
    assert clone.normalization is not None
    env = GymWrapper(NormalizeFeatures(inner, clone.normalization))
    torch.manual_seed(0)
    network = sequential(clone)
    values = nn.Sequential(nn.Linear(len(clone.features), 64), nn.Tanh(), nn.Linear(64, 1))
    critic = ValueOperator(values, in_keys=["observation"])
    actor = ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        spec=env.action_spec,
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )

    def save(name: str) -> str:
        read_sequential(network, clone).save(name)
        return f"mlp:{name}"

    imitation = save(f"{file}.imitation")
    best = BestCheckpoint("mlgo/Inline-v0", modules.split("valid"), file)
    best.offer(imitation)
    advantage = GAE(gamma=1.0, lmbda=0.95, value_network=critic)
    loss = ClipPPOLoss(actor, critic, entropy_bonus=False)
    optimizer = torch.optim.Adam(loss.parameters(), lr=STEP)
    frames = min(FRAMES, int(steps))
    budget = {"frames_per_batch": frames, "total_frames": int(steps)}
    batches = Collector(env, actor, **budget, auto_register_policy_transforms=False)
    for number, batch in enumerate(batches, start=1):
        for _ in range(EPOCHS):
            advantage(batch)
            rows = batch.reshape(-1)
            for part in torch.randperm(len(rows)).chunk(BATCHES):
                losses = loss(rows[part])
                sum(value for key, value in losses.items() if key.startswith("loss_")).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
        if number % CHECK == 0 or number * frames >= int(steps):
            change = best.offer(save(f"{file}.last"))
            print(f"{number * frames} decisions: {change:+.2%} on validation modules, best {best.change:+.2%}")
    policies = {"imitation": imitation, "trained": best.policy, "clang": "default"}
    print(evaluate("mlgo/Inline-v0", corpus=modules.split("test"), policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
