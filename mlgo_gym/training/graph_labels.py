"""The call graphs of labels: those of inlining have them where the environment has `ir=True`."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_gym.compiler.decision_code import EDGE_COLUMNS, NODE_COLUMNS, CallGraph
from mlgo_gym.errors import MlgoError
from mlgo_gym.training.labels import label_tables, read_labels

_COLUMNS = "nodes", "edges", "edge_links"
"""Columns of a graph, which are attributes of `CallGraph`."""


def read_graphs(paths: Sequence[Path]) -> list[CallGraph]:
    """Return the call graph of each label, in the order of `read_labels()`; their functions have no names.

    Raises:
        MissingExtraError: pyarrow is not installed.
        MlgoError: a path has no labels, or labels without graphs.
    """
    graphs = []
    for path, table in label_tables(paths):
        if not set(_COLUMNS) <= set(table.column_names):
            raise MlgoError(f"expected labels with call graphs, got {path} without; use `mlgo-gym label --graphs`")
        for row in zip(*(table.column(name).to_pylist() for name in _COLUMNS), strict=True):
            nodes, edges, links = (
                np.array(values, np.int64).reshape(-1, width)
                for values, width in zip(row, (len(NODE_COLUMNS), len(EDGE_COLUMNS), 2), strict=True)
            )
            graphs.append(CallGraph(("",) * len(nodes), nodes, edges, links))
    return graphs


def graph_columns(graphs: Sequence[CallGraph]) -> dict[str, Any]:
    """Return the columns of some graphs, for `ModuleLabels`."""
    return {name: [getattr(graph, name).ravel() for graph in graphs] for name in _COLUMNS}


def labels_digest(paths: Sequence[Path]) -> str:
    """Return the SHA-256 of modules, features, actions, costs and graphs of labels, in hexadecimal."""
    labels, digest = read_labels(paths), hashlib.sha256()
    names = "\n".join([*labels.features, *labels.modules.tolist(), *labels.digests.tolist()])
    digest.update(names.encode(errors="surrogateescape"))
    costs = np.zeros((len(labels), 2))  # of each action, against the policy's
    costs[np.arange(len(labels)), 1 - labels.answers] = np.where(labels.answers, 0 - labels.bytes, labels.bytes)
    for array in (labels.observations, labels.answers, costs):
        digest.update(np.ascontiguousarray(array, np.float64).tobytes())
    for graph in read_graphs(paths):
        digest.update(b"".join(getattr(graph, name).tobytes() for name in _COLUMNS))
    return digest.hexdigest()
