"""PPO of TorchRL learns to inline, and is measured on modules that it has not seen.

pip install 'mlgo-gym[cli,evaluation,mlp,torchrl]'
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

from mlgo_gym.corpus import open_corpus
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.policies.network import Network
from mlgo_gym.wrappers import NormalizeFeatures, fit_normalization

FRAMES, EPOCHS, BATCHES = 1024, 4, 4


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """Return a network with two hidden layers."""
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def main(corpus: str = "builtin", steps: str = "20000", file: str = "torchrl_ppo.safetensors") -> None:
    """Train for a number of decisions, and print a table of the policy before, after, and clang."""
    modules = open_corpus(corpus, toolchain=find_toolchain())
    inner = gym.make("mlgo_gym:mlgo/Inline-v0", corpus=modules.split("train"))
    normal = fit_normalization(inner, observations=min(int(steps), 2_000))
    env = GymWrapper(NormalizeFeatures(inner, normal))
    torch.manual_seed(0)
    network, critic = mlp(len(normal.names), 2), ValueOperator(mlp(len(normal.names), 1), in_keys=["observation"])
    actor = ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        spec=env.action_spec,
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )

    def save(name: str) -> str:
        state = {key: value.numpy() for key, value in network.state_dict().items()}
        Network.from_state(state, "024", normal.names, activation="tanh", normalization=normal).save(name)
        return f"mlp:{name}"

    untrained = save(f"{file}.untrained")
    advantage = GAE(gamma=1.0, lmbda=0.95, value_network=critic)
    loss = ClipPPOLoss(actor, critic)
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-4)
    frames = min(FRAMES, int(steps))
    budget = {"frames_per_batch": frames, "total_frames": int(steps)}
    for batch in Collector(env, actor, **budget, auto_register_policy_transforms=False):
        for _ in range(EPOCHS):
            advantage(batch)
            rows = batch.reshape(-1)
            for part in torch.randperm(len(rows)).chunk(BATCHES):
                losses = loss(rows[part])
                sum(value for key, value in losses.items() if key.startswith("loss_")).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
    policies = {"untrained": untrained, "trained": save(file), "clang": "default"}
    print(evaluate("mlgo/Inline-v0", corpus=modules.split("test"), policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
