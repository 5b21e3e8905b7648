"""Where functions stand in the picture of a call graph."""

from __future__ import annotations

import random

import pytest

from mlgo_gym.explanation.graph_layout import layered


def test_callers_stand_to_the_left_of_what_they_call() -> None:
    layout = layered(4, [(0, 1), (1, 2), (0, 2), (2, 3)])
    assert [layer for layer, _ in layout.nodes] == [0, 1, 2, 3]


def test_an_edge_over_a_layer_has_a_place_there_that_no_node_takes() -> None:
    layout = layered(3, [(0, 1), (1, 2), (0, 2)])
    path = layout.edges[2]
    assert [layer for layer, _ in path] == [0, 1, 2]
    assert abs(path[1][1] - layout.nodes[1][1]) >= 0.5


@pytest.mark.parametrize("seed", range(5))
def test_no_two_nodes_overlap_whatever_the_graph(seed: int) -> None:
    chance = random.Random(seed)
    edges = list({(chance.randrange(20), chance.randrange(20)) for _ in range(40)})
    layout = layered(20, [edge for edge in edges if edge[0] != edge[1]])
    for number, (layer, height) in enumerate(layout.nodes):
        for other, elsewhere in layout.nodes[:number]:
            assert layer != other or abs(height - elsewhere) > 0.99
    assert min(height for _, height in layout.nodes) >= 0


def test_nothing_is_placed_where_there_is_nothing() -> None:
    assert layered(0, []).nodes == []
