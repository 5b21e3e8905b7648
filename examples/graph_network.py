"""A graph network on frozen labels with call graphs: fitted, chosen by validation labels, and a policy for `evaluate`.

Each label is a decision that was compiled with both actions, and its call graph. The network reads the graph around the
call and the features of the call. It deviates from clang's own choice where its logit is beyond a margin, which is
chosen on the validation part. No module of the test part is read.

pip install '.[tools,training]'   # in a clone of mlgo-gym
mlgo-gym label mlgo/inline-graphs-v0 --output runs/graphs
python graph_network.py runs/graphs runs/graph.pt [SEED] [EPOCHS]
GRAPH_NETWORK=runs/graph.pt mlgo-gym evaluate mlgo/Inline-v0 --split test --set observation=graph \
    --policy default,last-call,graph_network.py:GraphPolicy --output runs/graph-results
mlgo-gym report runs/graph-results
"""

from mlgo_gym.extras import require_libraries

require_libraries("training", "torch", "pyarrow")

import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from mlgo_gym import CompilerEnv, read_labels
from mlgo_gym.compiler.decision_code import EDGE_COLUMNS, NODE_COLUMNS
from mlgo_gym.policies.protocol import feature_vector
from mlgo_gym.training.distillation import network_features
from mlgo_gym.training.graph_labels import read_graphs
from mlgo_gym.training.tree_imitation import estimate

WIDTH, ROUNDS, BATCH = 32, 2, 64
MARGINS = 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")


class Call(NamedTuple):
    """A decision: the nodes, the edges and their ends, the features of the call."""

    nodes: Any
    edges: Any
    links: Any
    features: Any


def tensor(values: Any) -> torch.Tensor:
    """Return signed logarithms."""
    array = np.asarray(values, np.float32)
    return torch.from_numpy(np.sign(array) * np.log1p(np.abs(array)))


class GraphNetwork(nn.Module):  # type: ignore[misc]  # PyTorch need not be installed
    """Logit of inlining a call, from its call graph and its features."""

    def __init__(self, features: Sequence[str]) -> None:
        super().__init__()
        self.features = list(features)
        self.norm = nn.BatchNorm1d(len(features))
        self.first = nn.Linear(len(NODE_COLUMNS), WIDTH)
        self.messages = nn.ModuleList(nn.Linear(WIDTH + len(EDGE_COLUMNS) + 1, WIDTH) for _ in range(ROUNDS))
        self.last = nn.Sequential(nn.Linear(2 * WIDTH + len(features), WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, calls: Sequence[Call]) -> torch.Tensor:
        """Return the logits of some calls."""
        starts = np.cumsum([0, *(len(call.nodes) for call in calls)])[:-1]
        links = np.concatenate([call.links + start for call, start in zip(calls, starts, strict=True)])
        decisions = np.cumsum([0, *(len(call.links) for call in calls)])[:-1]
        nodes = self.first(torch.cat([tensor(call.nodes) for call in calls])).relu()
        edges = torch.cat([tensor(call.edges) for call in calls])
        # Each edge carries a message in both directions, and a flag that tells them apart.
        ends = torch.from_numpy(np.concatenate([links, links[:, ::-1]]).astype(np.int64))
        flags = torch.arange(2).repeat_interleave(len(edges))[:, None]
        both = torch.cat([torch.cat([edges, edges]), flags], 1)
        for layer in self.messages:
            sent = layer(torch.cat([nodes[ends[:, 0]], both], 1)).relu()
            nodes = nodes + torch.zeros_like(nodes).index_add(0, ends[:, 1], sent)
        # The first edge of a graph is the decision: from the caller to the callee.
        caller, callee = torch.from_numpy(links[decisions].astype(np.int64)).T
        features = self.norm(torch.stack([tensor(call.features) for call in calls]))
        logits: torch.Tensor = self.last(torch.cat([nodes[caller], nodes[callee], features], 1))[:, 0]
        return logits


def logits(network: GraphNetwork, calls: Sequence[Call]) -> Any:
    """Return the logits of any number of calls, float32."""
    with torch.no_grad():
        parts = [network(calls[start : start + BATCH]) for start in range(0, len(calls), BATCH)]
    return torch.cat(parts).numpy()


def answers(values: Any, defaults: Any, margin: float) -> Any:
    """Return the actions of a network with a margin over clang's own choices."""
    return np.where(values > margin, 1, np.where(values < -margin, 0, defaults))


class GraphPolicy:
    """The network of the file `$GRAPH_NETWORK` as a policy, in environments with `observation="graph"`."""

    def __init__(self, env: CompilerEnv) -> None:
        stored = torch.load(os.environ["GRAPH_NETWORK"], weights_only=True)
        self.network, self.margin = GraphNetwork(stored["features"]), stored["margin"]
        self.network.load_state_dict(stored["weights"])
        self.network.eval()
        self.features = feature_vector("the graph network", env, stored["features"])

    def act(self, observation: Any, info: Any) -> int:
        """Return the action for a call graph."""
        edges = observation.edges[:, : len(EDGE_COLUMNS)]
        call = Call(observation.nodes, edges, observation.edge_links, self.features(observation))
        return int(answers(logits(self.network, [call]), info["default_action"], self.margin)[0])


def main(folder: str, file: str, seed: str = "0", epochs: str = "20") -> None:
    """Fit the network to the part `fit`, choose epoch and margin by the part `valid`, and write the file."""
    labels = read_labels([Path(folder)])
    features = network_features(labels.features)
    rows = labels.select_features(features).observations
    calls = [
        Call(graph.nodes, graph.edges, graph.edge_links, row)
        for graph, row in zip(read_graphs([Path(folder)]), rows, strict=True)
    ]
    defaults = rows[:, features.index("inlining_default")]
    valid = np.flatnonzero(labels.in_part("valid"))
    fit = [int(row) for row in np.flatnonzero(labels.in_part("fit") & (labels.bytes != 0))]
    weights, smaller = torch.from_numpy(labels.weights).float(), torch.from_numpy(labels.bytes < 0).float()
    torch.manual_seed(int(seed))
    chance = random.Random(int(seed))
    network = GraphNetwork(features)
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3, weight_decay=0.01)
    judged, held_out = labels.select(valid), [calls[row] for row in valid]
    best = float("inf")
    for epoch in range(int(epochs)):
        network.train()
        order = chance.sample(fit, len(fit))
        for batch in (order[start : start + BATCH] for start in range(0, len(order) - 1, BATCH)):
            values = network([calls[row] for row in batch])
            loss = nn.functional.binary_cross_entropy_with_logits(values, smaller[batch], weights[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        network.eval()
        values = logits(network, held_out)
        changes = {margin: estimate(judged, answers(values, defaults[valid], margin)) for margin in MARGINS}
        margin = min(changes, key=lambda margin: (changes[margin], -margin))
        if changes[margin] < best:
            best = changes[margin]
            torch.save({"features": list(features), "margin": margin, "weights": network.state_dict()}, file)
            print(f"epoch {epoch}: {best:+.3%} by the validation labels with the margin {margin:g}", flush=True)
    print(f"{len(fit)} labels to fit, {len(valid)} to choose by; wrote {file}")


if __name__ == "__main__":
    main(*sys.argv[1:])
