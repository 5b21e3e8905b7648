"""Policy iteration on counterfactual advantages: from random weights, no teacher, one file.

Each round labels modules around the current policy: a compile flips many independent decisions, and tells what each of
them saved or cost. So a round has the exact advantage of thousands of decisions, where reinforcement learning has one
noisy sample of each. New networks then follow the gradient of the expected advantage, over the labels of all rounds.

It keeps the best checkpoint on validation modules, and compares it with clang and a rule on test modules. LABELS is
`Os` or `Oz` for the bundled ones. With them the first round starts from what they teach, and all rounds learn from them
too. The policy then decides otherwise than a rule only where it is sure.

pip install '.[learn]'   # in a clone of mlgo-gym
python policy_iteration.py [CORPUS] [MINUTES] [FILE] [SEED] [LABELS]
mlgo-gym evaluate mlgo/Inline-v0 --corpus builtin@Os --split test --policy mlp:FILE
"""

from mlgo_gym.extras import require_libraries

require_libraries("learn", "torch")

import shutil
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from hyperparameters import CORPUS, HIDDEN_FEATURES, hyperparams
from torch import nn

from mlgo_gym import BestCheckpoint, Execution, Labelling, evaluate, open_corpus, read_labels, with_margin
from mlgo_gym.integrations import Normalization, fit_normalization
from mlgo_gym.integrations.pytorch import read_sequential

SETTINGS = hyperparams["policy iteration"]


def advantages(labels: Any, normalization: Normalization) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the network sees of each decision, and how much inlining saves against keeping the call."""
    shown = labels.select_features(normalization.names)
    savings = -np.sign(shown.bytes) * shown.weights
    seen = normalization(shown.observations.astype(np.float32))
    return torch.from_numpy(seen), torch.from_numpy(savings.astype(np.float32))


def build(features: int) -> nn.Sequential:
    """Return a network of random weights that keeps calls: so compiles are quick at the start."""
    widths = [features, *SETTINGS["net_arch"]]
    layers = [part for pair in pairwise(widths) for part in (nn.Linear(*pair), nn.ReLU())]
    network = nn.Sequential(*layers, nn.Linear(widths[-1], 1))
    nn.init.constant_(network[-1].bias, -2.0)
    return network


def fit(seen: torch.Tensor, savings: torch.Tensor) -> nn.Sequential:
    """Return a new network that has followed the gradient of the expected advantage, with a bonus for entropy."""
    network = build(seen.shape[1])
    optimizer = torch.optim.AdamW(network.parameters(), SETTINGS["learning_rate"])
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, SETTINGS["learning_rate"], total_steps=SETTINGS["n_updates"]
    )
    for _ in range(SETTINGS["n_updates"]):
        batch = torch.randint(len(seen), (SETTINGS["batch_size"],))
        choice = torch.distributions.Bernoulli(logits=network(seen[batch])[:, 0])
        gain = (choice.probs * savings[batch]).mean() + SETTINGS["ent_coef"] * choice.entropy().mean()
        optimizer.zero_grad()
        (-gain).backward()
        optimizer.step()
        schedule.step()
    return network


def mean(networks: list[nn.Sequential]) -> nn.Sequential:
    """Return one network whose logit is the mean of those of several: their layers are side by side."""
    layers: list[nn.Module] = []
    for number, parts in enumerate(zip(*networks, strict=True)):
        if isinstance(parts[0], nn.ReLU):
            layers.append(nn.ReLU())
            continue
        weights, bias = [part.weight for part in parts], torch.cat([part.bias for part in parts])
        weight = torch.block_diag(*weights) if number else torch.cat(weights)
        if number == len(networks[0]) - 1:
            weight, bias = weight.mean(0, keepdim=True), bias.mean(0, keepdim=True)
        layer = nn.Linear(*reversed(weight.shape))
        layer.weight, layer.bias = nn.Parameter(weight.detach()), nn.Parameter(bias.detach())
        layers.append(layer)
    return nn.Sequential(*layers)


def learn(known: list[tuple[torch.Tensor, torch.Tensor]]) -> nn.Sequential:
    """Return the mean of several networks, which differ in their random weights; it generalises better than each."""
    seen, savings = map(torch.cat, zip(*known, strict=True))
    return mean([fit(seen, savings) for _ in range(SETTINGS["n_networks"])])


def main(
    corpus: str = CORPUS,
    minutes: str = "10",
    file: str = "policy_iteration.safetensors",
    seed: str = "0",
    start: str = "",
) -> None:
    """Train for some minutes, and print a table of the best checkpoint, a rule, and clang."""
    torch.set_num_threads(1)  # the network is too small for more
    torch.manual_seed(int(seed))
    modules = open_corpus(corpus)
    started, last = time.monotonic(), f"{file}.last"
    execution = Execution(jobs=SETTINGS["n_jobs"])
    with gym.make("mlgo_gym:mlgo/Inline-v0", corpus=modules.split("fit"), callee_features=True) as env:
        normalization = fit_normalization(env, observations=SETTINGS["normalization_observations"])
    normalization = normalization.select([name for name in normalization.names if name not in HIDDEN_FEATURES])
    network, given, margin = build(len(normalization.names)), [], 0.0
    if start:
        bandit = gym.make("mlgo_gym:mlgo/InlineBandit-v0", labels=start, callee_features=True, split="fit")
        given.append(advantages(bandit.get_wrapper_attr("labels"), normalization))
        network, margin = learn(given), SETTINGS["margin"]

    def save() -> None:
        """Write the policy, which decides as a rule does unless its logit exceeds the margin."""
        with_margin(read_sequential(network, normalization), margin, "threshold:5").save(last)

    best = BestCheckpoint("mlgo/Inline-v0", modules.split("valid"), file, execution=execution)
    folder = Path(f"{file}.rounds")
    shutil.rmtree(folder, ignore_errors=True)
    rounds: list[Path] = []
    while not rounds or time.monotonic() - started < 60 * float(minutes):
        save()
        labelling = Labelling(
            ",".join(f"{part}:fit" for part in corpus.split(",")),
            f"mlp:{last}",
            arguments={"callee_features": True},
            compiles=SETTINGS["n_compiles"],
            seconds=SETTINGS["n_seconds"],
            seed=1000 * int(seed) + len(rounds),
            limit=SETTINGS["n_modules"],
        )
        rounds.append(folder / str(len(rounds)))
        for _ in labelling.run(rounds[-1], execution):
            pass
        labels = read_labels(rounds)
        network = learn([*given, advantages(labels, normalization)])
        save()
        change = best.offer(f"mlp:{last}")
        print(
            f"{(time.monotonic() - started) / 60:4.1f} min, {len(labels):7,} decisions: {change:+.2%} on validation "
            f"modules, best {best.change:+.2%}",
            flush=True,
        )
    shutil.rmtree(folder)

    policies = {"trained": best.policy, "threshold": "threshold:5", "clang": "default"}
    print(evaluate("mlgo/Inline-v0", corpus=modules.split("test"), policies=policies, execution=execution))


if __name__ == "__main__":
    main(*sys.argv[1:])
