"""The order in which episodes take modules."""

from collections import Counter

import numpy as np

from mlgo_gym.corpus.module_order import ModuleOrder, OrderCursor

NAMES = [f"lib/{letter}" for letter in "abcde"] + ["main"]


def taken(order: ModuleOrder, count: int, seed: int = 0, cursor: OrderCursor | None = None) -> list[int]:
    np_random, cursor = np.random.default_rng(seed), cursor or OrderCursor()
    return [position for _ in range(count) if (position := order.draw(np_random, cursor, frozenset())) is not None]


def test_environments_that_go_together_share_a_round() -> None:
    for name in ("cycle", "shuffle"):
        shares = [taken(ModuleOrder(NAMES, name), 2, number, OrderCursor(number, 3)) for number in range(3)]
        assert sorted(position for share in shares for position in share) == [0, 1, 2, 3, 4, 5]


def test_what_was_drawn_does_not_come_again_until_nothing_is_left() -> None:
    for order in (ModuleOrder(NAMES), ModuleOrder(NAMES, "cycle"), ModuleOrder(NAMES, {"main": 2})):
        np_random, cursor, drawn = np.random.default_rng(0), OrderCursor(), set[int]()
        while (position := order.draw(np_random, cursor, drawn)) is not None:
            assert position not in drawn
            drawn.add(position)
        assert drawn == set(range(6))


def test_weights_make_modules_likelier() -> None:
    order = ModuleOrder(NAMES, {"main": 5, "lib/a": 0, "lib/*": 1})
    counts = Counter(taken(order, 9_000))
    assert 0 not in counts
    assert 4_700 < counts[5] < 5_300
    assert all(850 < counts[position] < 1_150 for position in (1, 2, 3, 4))
