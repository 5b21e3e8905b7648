"""The call graph of a module at an inlining decision, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.extras import library

NODE_COLUMNS = ("linkage", "instructions", "blocks", "uses", "address_taken", "declared", "left")
"""Columns of nodes.

`linkage` has the codes of `mlgo_gym.compiler.callee_features`. `uses` counts the references in printed code and in the
values of globals, `address_taken` those that are no direct calls. `declared` is 1 for a function without code, `left`
for one that the inliner has left.
"""

EDGE_COLUMNS = ("calls", "kept", "inlined", "decision")
"""Columns of edges: direct calls in the printed code, earlier decisions by result, and 1 for the pending decision."""


@dataclass(frozen=True, slots=True)
class CallGraph:
    """Functions and the calls between them, without LLVM's intrinsics.

    Attributes:
        functions: Names of the functions, in the order of the nodes. The first is the caller of the pending decision,
            the second its callee, unless that is unknown or the same.
        nodes: int64 of shape (functions, `NODE_COLUMNS`).
        edges: int64 of shape (edges, `EDGE_COLUMNS`). An edge without calls has earlier decisions, or the pending one.
            The pending decision is on an edge of the caller to itself if the callee is unknown.
        edge_links: Nodes of caller and callee, int64 of shape (edges, 2).
    """

    functions: tuple[str, ...]
    nodes: npt.NDArray[np.int64]
    edges: npt.NDArray[np.int64]
    edge_links: npt.NDArray[np.int64]

    def to_networkx(self) -> Any:
        """Return a `networkx.DiGraph` of the names, with the columns as attributes of nodes and edges."""
        graph = library("networkx", "CallGraph.to_networkx()", "graphs").DiGraph()
        for name, row in zip(self.functions, self.nodes.tolist(), strict=True):
            graph.add_node(name, **dict(zip(NODE_COLUMNS, row, strict=True)))
        for (caller, callee), row in zip(self.edge_links.tolist(), self.edges.tolist(), strict=True):
            attributes = dict(zip(EDGE_COLUMNS, row, strict=True))
            graph.add_edge(self.functions[caller], self.functions[callee], **attributes)
        return graph

    def to_pyg(self) -> Any:
        """Return a `torch_geometric.data.Data` with float32 `x` and `edge_attr`, `edge_index`, and `functions`."""
        torch = library("torch", "CallGraph.to_pyg()", "graphs")
        data = library("torch_geometric.data", "CallGraph.to_pyg()", "graphs")
        return data.Data(
            x=torch.as_tensor(self.nodes, dtype=torch.float32),
            edge_index=torch.as_tensor(self.edge_links.T.copy()),
            edge_attr=torch.as_tensor(self.edges, dtype=torch.float32),
            functions=self.functions,
        )


NO_CALLS = CallGraph(
    ("",),
    *(
        np.zeros((rows, columns), np.int64)
        for rows, columns in ((1, len(NODE_COLUMNS)), (0, len(EDGE_COLUMNS)), (0, 2))
    ),
)
"""A graph of one function without a name, after the last decision."""
