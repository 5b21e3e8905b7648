"""PPO of TorchRL learns to inline at -Os from random weights, from the credit of each decision.

It keeps the best checkpoint on validation modules, and compares it with clang and a rule on test modules.

pip install '.[learn,torchrl]'   # in a clone of mlgo-gym
python torchrl_ppo.py [CORPUS] [STEPS] [FILE] [SEED]
mlgo-gym evaluate mlgo/Inline-v0 --corpus builtin@Os --split test --policy mlp:FILE
"""

from mlgo_gym.extras import require_libraries

require_libraries("learn,torchrl", "torch", "torchrl")

import sys
import time
from typing import Any

import gymnasium as gym
import torch
from hyperparameters import CHECKPOINTS, CORPUS, HIDDEN_FEATURES, MAX_DECISIONS, hyperparams
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper
from torchrl.modules import MLP, OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss

from mlgo_gym import BestCheckpoint, evaluate, open_corpus
from mlgo_gym.integrations import NormalizeFeatures, fit_normalization
from mlgo_gym.integrations.pytorch import read_sequential

SETTINGS = hyperparams["mlgo/Inline-v0"]
FRAMES = SETTINGS["n_envs"] * SETTINGS["n_steps"]
"""Decisions of an update."""


class KeepRewards(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps the reward of each decision, which comes with the last step of an episode, in the order of decisions."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.rewards: list[float] = []

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and keep the rewards of an episode that ends."""
        result = self.env.step(action)
        self.rewards.extend(result[4].get("rewards", ()))
        return result


def main(
    corpus: str = CORPUS,
    steps: str = "40000",  # one clang at a time, about 15 minutes on a busy core
    file: str = "torchrl_ppo.safetensors",
    seed: str = "0",
) -> None:
    """Train for a number of decisions, and print a table of the best checkpoint, a rule, and clang."""
    torch.manual_seed(int(seed))
    torch.set_num_threads(1)  # the network is too small for more
    modules = open_corpus(corpus)
    options: dict[str, Any] = {"credit": True, "max_decisions": MAX_DECISIONS}
    inner = gym.make("mlgo_gym:mlgo/Inline-v0", corpus=modules.split("fit"), **options)
    normalization = fit_normalization(inner, observations=min(20_000, int(steps)))
    normalization = normalization.select([name for name in normalization.names if name not in HIDDEN_FEATURES])
    kept = KeepRewards(inner)
    env = GymWrapper(NormalizeFeatures(kept, normalization))
    features = len(normalization.names)
    network = MLP(features, 2, num_cells=[64, 64], activation_class=nn.Tanh)
    critic = ValueOperator(MLP(features, 1, num_cells=[64, 64], activation_class=nn.Tanh), in_keys=["observation"])
    actor = ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        spec=env.action_spec,
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )
    loss = ClipPPOLoss(actor, critic, entropy_coeff=SETTINGS["ent_coef"], normalize_advantage=True)
    optimizer = torch.optim.Adam(loss.parameters(), lr=SETTINGS["learning_rate"])
    best = BestCheckpoint("mlgo/Inline-v0", modules.split("valid"), file)

    frames = min(FRAMES, int(steps))
    updates = max(1, int(steps) // frames)
    budget = {"frames_per_batch": frames, "total_frames": updates * frames}
    started = time.monotonic()
    batches = Collector(env, actor, **budget, auto_register_policy_transforms=False)
    for update, batch in enumerate(batches, start=1):
        # The last episode of a batch is not over: nothing is known about its decisions.
        rewards = torch.tensor(kept.rewards[(update - 1) * frames : update * frames], dtype=torch.float32)
        rows = batch.reshape(-1)[: len(rewards)]
        targets = rewards.unsqueeze(-1)
        rows["value_target"] = targets / (targets.std() + 1e-8)
        with torch.no_grad():
            rows["advantage"] = rows["value_target"] - critic(rows)["state_value"]
        for _ in range(SETTINGS["n_epochs"]):
            # Nothing, if no episode ended within the batch.
            for part in torch.randperm(len(rows)).split(SETTINGS["batch_size"]) if len(rows) else ():
                losses = loss(rows[part])
                sum(value for key, value in losses.items() if key.startswith("loss_")).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
        if update % max(1, updates // CHECKPOINTS) == 0 or update == updates:
            read_sequential(network, normalization).save(f"{file}.last")
            change = best.offer(f"mlp:{file}.last")
            print(
                f"{(time.monotonic() - started) / 60:4.1f} min, {update * frames:7,} decisions: {change:+.2%} on "
                f"validation modules, best {best.change:+.2%}",
                flush=True,
            )
    batches.shutdown()
    policies = {"trained": best.policy, "threshold": "threshold:5", "clang": "default"}
    print(evaluate("mlgo/Inline-v0", corpus=modules.split("test"), policies=policies))


if __name__ == "__main__":
    main(*sys.argv[1:])
