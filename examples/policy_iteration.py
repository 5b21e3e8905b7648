"""Policy iteration on counterfactual advantages: from random weights, no teacher, one file.

Each round labels modules around the current policy: a compile flips many independent decisions, and tells what each of
them saved or cost. So a round has the exact advantage of thousands of decisions, where reinforcement learning has one
noisy sample of each. The network then follows the gradient of its expected advantage, over the labels of all rounds.

It keeps the best checkpoint on validation modules, and compares it with clang and a rule on test modules. With LABELS,
`Os` or `Oz` for the bundled ones, the first round starts from what these teach, and all rounds learn from them too.

pip install 'mlgo-gym[cli,corpus,mlp,training]'
python policy_iteration.py [CORPUS] [MINUTES] [FILE] [SEED] [LABELS]
mlgo-gym evaluate mlgo/Inline-v0 --corpus builtin@Os --split test --policy mlp:FILE
"""

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

from mlgo_gym import BestCheckpoint, Execution, Labelling, evaluate, open_corpus, read_labels
from mlgo_gym.adapters.pytorch import read_sequential
from mlgo_gym.wrappers import Normalization, fit_normalization

SETTINGS = hyperparams["policy iteration"]


def advantages(labels: Any, normalization: Normalization) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the network sees of each decision, and how much inlining saves against keeping the call."""
    shown = labels.select_features(normalization.names)
    savings = -np.sign(shown.bytes) * shown.weights
    seen = normalization(shown.observations.astype(np.float32))
    return torch.from_numpy(seen), torch.from_numpy(savings.astype(np.float32))


def learn(network: nn.Sequential, known: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Follow the gradient of the expected advantage of inlining, with a bonus for entropy."""
    seen, savings = map(torch.cat, zip(*known, strict=True))
    optimizer = torch.optim.AdamW(network.parameters(), SETTINGS["learning_rate"])
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, SETTINGS["learning_rate"], total_steps=SETTINGS["n_updates"]
    )
    for _ in range(SETTINGS["n_updates"]):
        batch = torch.randint(len(seen), (SETTINGS["batch_size"],))
        choice = torch.distributions.Categorical(logits=network(seen[batch]))
        gain = (choice.probs[:, 1] * savings[batch]).mean() + SETTINGS["ent_coef"] * choice.entropy().mean()
        optimizer.zero_grad()
        (-gain).backward()
        optimizer.step()
        schedule.step()


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
    started = time.monotonic()
    execution = Execution(jobs=SETTINGS["n_jobs"])
    with gym.make("mlgo_gym:mlgo/Inline-v0", corpus=modules.split("fit"), callee_features=True) as env:
        normalization = fit_normalization(env, observations=SETTINGS["normalization_observations"])
    normalization = normalization.select([name for name in normalization.names if name not in HIDDEN_FEATURES])
    widths = [len(normalization.names), *SETTINGS["net_arch"]]
    layers = [part for pair in pairwise(widths) for part in (nn.Linear(*pair), nn.ReLU())]
    network = nn.Sequential(*layers, nn.Linear(widths[-1], 2))
    with torch.no_grad():
        network[-1].bias.copy_(torch.tensor([1.0, -1.0]))  # starts by keeping calls: compiles are quick
    given = []
    if start:
        bandit = gym.make("mlgo_gym:mlgo/InlineBandit-v0", labels=start, callee_features=True, split="fit")
        given.append(advantages(bandit.get_wrapper_attr("labels"), normalization))
        learn(network, given)

    best = BestCheckpoint("mlgo/Inline-v0", modules.split("valid"), file, execution=execution)
    folder, last = Path(f"{file}.rounds"), f"{file}.last"
    shutil.rmtree(folder, ignore_errors=True)
    rounds: list[Path] = []
    while not rounds or time.monotonic() - started < 60 * float(minutes):
        read_sequential(network, normalization).save(last)
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
        learn(network, [*given, advantages(labels, normalization)])
        read_sequential(network, normalization).save(last)
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
