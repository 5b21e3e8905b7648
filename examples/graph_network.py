"""A graph network on call graphs, against a network on vectors and rules, by cross-validation over projects.

Each label is a decision of clang: its call graph, its features, and the bytes that inlining saves there, by one more
compile. A graph network sees the neighbourhood of the call; the network on vectors sees the features alone. Each
project is predicted by networks that were trained on the other projects.

pip install '.[graphs,cli]'   # in a clone of mlgo-gym
python graph_network.py [CORPORA] [MODULES] [DECISIONS] [SEEDS] [FILE]

CORPORA are projects with commas between, of each MODULES are drawn, and of each of these DECISIONS. FILE keeps the
results as JSON.
"""

from mlgo_gym.extras import require_libraries

require_libraries("graphs", "torch", "torch_geometric")

import json
import random
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINEConv, global_mean_pool

from mlgo_gym import CompilerEnv
from mlgo_gym.policies import load_policy

CORPORA = "builtin:train,box2d-py,sentencepiece,fasttext,jsonnet,brotli,hiredis,pillow"
RULES = "always", "never", "threshold:5", "last-call"
WIDTH, ROUNDS, EPOCHS, NEIGHBOURS = 48, 3, 25, 32


def labels_of(corpus: str, modules: int, decisions: int) -> list[Data]:
    """Return the labels of a project: graphs with the features of the call, and the bytes that inlining saves."""
    env = gym.make("mlgo/Inline-v0", corpus=corpus, ir=True, callee_features=True).unwrapped
    assert isinstance(env, CompilerEnv)
    rules = [load_policy(rule, env) for rule in RULES]
    chance = random.Random(corpus)
    names = [module.name for module in env.corpus if module.bitcode.stat().st_size < 100_000]
    labels: list[Data] = []
    for name in chance.sample(names, min(modules, len(names))):
        if not env.decisions(env.corpus.module(name)):
            continue
        observation, info = env.reset(options={"module": name})
        graphs, done = [], False
        while not done:
            choices = [bool(rule.act(observation, info)) for rule in rules]
            graphs.append((env.call_graph(NEIGHBOURS).to_pyg(), observation, info["default_action"], choices))
            observation, _, done, _, info = env.step(info["default_action"])
        chosen = chance.sample(range(len(graphs)), min(decisions, len(graphs)))
        for index, flipped in zip(chosen, env.counterfactual(*chosen), strict=True):
            graph, features, default, choices = graphs[index]
            saved = flipped.saved if flipped.action else -flipped.saved
            graph.x, graph.edge_attr = torch.log1p(graph.x), torch.log1p(graph.edge_attr)
            graph.features = torch.as_tensor(np.sign(features) * np.log1p(np.abs(features)))[None]
            graph.saved, graph.default = torch.tensor([float(saved)]), torch.tensor([int(default)])
            graph.rules = torch.tensor([choices])
            labels.append(graph)
    env.close()
    return labels


class Network(nn.Module):  # type: ignore[misc]  # PyTorch need not be installed
    """Logit of inlining, from the features of the call, and with `sees_graph` from the call graph around it."""

    def __init__(self, example: Data, *, sees_graph: bool) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(example.features.shape[1])
        self.first = nn.Linear(example.x.shape[1], WIDTH) if sees_graph else None
        edges = example.edge_attr.shape[1]
        self.rounds = nn.ModuleList(
            GINEConv(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)), edge_dim=edges)
            for _ in range(ROUNDS if sees_graph else 0)
        )
        width = example.features.shape[1] + (3 * WIDTH if sees_graph else 0)
        self.last = nn.Sequential(nn.Linear(width, WIDTH), nn.ReLU(), nn.Dropout(0.2), nn.Linear(WIDTH, 1))

    def forward(self, batch: Any) -> torch.Tensor:
        """Return a logit for each graph of a batch."""
        parts = [self.norm(batch.features)]
        if self.first is not None:
            nodes = self.first(batch.x)
            both = torch.cat([batch.edge_index, batch.edge_index.flip(0)], 1)
            edges = torch.cat([batch.edge_attr, batch.edge_attr])
            for convolution in self.rounds:
                nodes = nodes + convolution(nodes.relu(), both, edges)
            # The first edge of a graph is the decision: it leads from the caller to the callee.
            call = batch.edge_index[:, batch.edge_attr[:, -1] > 0]
            parts += [nodes[call[0]], nodes[call[1]], global_mean_pool(nodes, batch.batch)]
        logits: torch.Tensor = self.last(torch.cat(parts, 1))[:, 0]
        return logits


def fit(labels: list[Data], seed: int, *, sees_graph: bool) -> Network:
    """Return a network that was trained to tell whether inlining saves bytes, weighted by their number."""
    torch.manual_seed(seed)
    network = Network(labels[0], sees_graph=sees_graph)
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3, weight_decay=0.01)
    chance = random.Random(seed)
    network.train()
    for _ in range(EPOCHS):
        order = chance.sample(labels, len(labels))
        for start in range(0, len(order) - 1, 64):
            batch = Batch.from_data_list(order[start : start + 64])
            weights = batch.saved.abs().clamp(max=256).sqrt()
            loss = nn.functional.binary_cross_entropy_with_logits(network(batch), (batch.saved > 0).float(), weights)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    network.eval()
    return network


def share(labels: list[Data], inlines: list[bool]) -> tuple[float, float]:
    """Return the bytes that some choices save over clang's, and those that the best choices save."""
    gained = sum(
        float(label.saved) * (int(choice) - int(label.default)) for label, choice in zip(labels, inlines, strict=True)
    )
    best = sum(abs(float(label.saved)) for label in labels if (label.saved > 0) != bool(label.default))
    return gained, best


def choices(network: Network, labels: list[Data]) -> list[bool]:
    """Return whether a network inlines, for each label."""
    with torch.no_grad():
        flags: list[bool] = (network(Batch.from_data_list(labels)) > 0).tolist()
    return flags


def main(corpora: str = CORPORA, modules: str = "10", decisions: str = "16", seeds: str = "3", file: str = "") -> None:
    """Print for each method the part of the bytes that the best choices save over clang's, in unseen projects."""
    projects = {
        corpus: found for corpus in corpora.split(",") if (found := labels_of(corpus, int(modules), int(decisions)))
    }
    print({corpus: len(labels) for corpus, labels in projects.items()}, flush=True)
    results: dict[str, list[float]] = defaultdict(list)
    everything = [label for labels in projects.values() for label in labels]
    for index, name in enumerate(RULES):
        gained, best = share(everything, [bool(label.rules[0, index]) for label in everything])
        results[name].append(gained / max(1, best))
    for seed in range(int(seeds)):
        for name, sees_graph in (("network on vectors", False), ("graph network", True)):
            totals = np.zeros(2)
            for held_out, labels in projects.items():
                others = [label for corpus, found in projects.items() if corpus != held_out for label in found]
                totals += share(labels, choices(fit(others, seed, sees_graph=sees_graph), labels))
            results[name].append(totals[0] / max(1, totals[1]))
    for name, values in results.items():
        print(f"{name:20} {np.mean(values):7.3f}  {' '.join(f'{value:.3f}' for value in values)}")
    if file:
        counts = {corpus: len(labels) for corpus, labels in projects.items()}
        Path(file).write_text(json.dumps({"labels": counts, "shares": results}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
