"""Strongly connected components, against SciPy."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo_gym.llvm.estimated_instructions import strong_components

csgraph = pytest.importorskip("scipy.sparse.csgraph")

NODES = 8


@given(st.sets(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1))))
def test_components_are_those_of_scipy_and_follow_their_successors(edges: set[tuple[int, int]]) -> None:
    graph = {node: sorted(target for source, target in edges if source == node) for node in range(NODES)}
    components = strong_components(graph)
    matrix = np.zeros((NODES, NODES), bool)
    for source, target in edges:
        matrix[source, target] = True
    _, labels = csgraph.connected_components(matrix, directed=True, connection="strong")
    expected = {frozenset(np.flatnonzero(labels == label).tolist()) for label in set(labels)}
    assert {frozenset(component) for component in components} == expected
    position = {node: index for index, component in enumerate(components) for node in component}
    assert sorted(position) == list(range(NODES))
    assert all(position[target] <= position[source] for source, target in edges)


def test_a_chain_may_be_longer_than_the_stack_of_python() -> None:
    length = 2 * sys.getrecursionlimit()
    chain = {node: [node + 1] if node < length else [] for node in range(length + 1)}
    components = strong_components(chain)
    assert [set(component) for component in components] == [{node} for node in reversed(range(length + 1))]
