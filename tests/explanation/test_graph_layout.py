"""Layered layout of call graphs."""

from __future__ import annotations

import random

import pytest

from mlgo_gym.explanation.graph_picture import layered_layout


def test_callers_are_left_of_their_callees() -> None:
    layout = layered_layout(4, [(0, 1), (1, 2), (0, 2), (2, 3)])
    assert [layer for layer, _ in layout.nodes] == [0, 1, 2, 3]


def test_an_edge_passes_between_the_nodes_of_a_layer() -> None:
    layout = layered_layout(3, [(0, 1), (1, 2), (0, 2)])
    path = layout.edges[2]
    assert [layer for layer, _ in path] == [0, 1, 2]
    assert abs(path[1][1] - layout.nodes[1][1]) >= 0.5


@pytest.mark.parametrize("seed", range(5))
def test_nodes_never_overlap(seed: int) -> None:
    chance = random.Random(seed)
    edges = list({(chance.randrange(20), chance.randrange(20)) for _ in range(40)})
    layout = layered_layout(20, [edge for edge in edges if edge[0] != edge[1]])
    for number, (layer, height) in enumerate(layout.nodes):
        for other, elsewhere in layout.nodes[:number]:
            assert layer != other or abs(height - elsewhere) > 0.99
    assert min(height for _, height in layout.nodes) >= 0


def test_an_empty_graph_has_an_empty_layout() -> None:
    assert layered_layout(0, []).nodes == []
