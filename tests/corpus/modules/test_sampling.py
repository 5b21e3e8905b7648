"""Seeded draws and splits."""

from __future__ import annotations

from collections import Counter

import pytest

from mlgo_gym.corpus.modules.sampling import PARTS, draw, draw_stratified, is_part, is_test
from mlgo_gym.errors import CorpusError

NAMES = [f"m{number}" for number in range(100)]
SIZES = {name: (number * 37) % 100 for number, name in enumerate(NAMES)}


@pytest.mark.parametrize("replacement", [True, False])
def test_equal_seeds_draw_equal_names(replacement: bool) -> None:
    first = draw(NAMES, 20, seed=3, replacement=replacement)
    assert first == draw(NAMES, 20, seed=3, replacement=replacement)
    assert first != draw(NAMES, 20, seed=4, replacement=replacement)


def test_without_replacement_every_name_comes_once() -> None:
    assert sorted(draw(NAMES, 100, seed=1)) == sorted(NAMES)


def test_drawing_more_than_there_are_is_an_error_without_replacement() -> None:
    with pytest.raises(CorpusError, match="got 101"):
        draw(NAMES, 101, seed=0)
    assert len(draw(NAMES, 101, seed=0, replacement=True)) == 101


@pytest.mark.parametrize("replacement", [True, False])
def test_a_stratified_draw_takes_as_many_of_each_size(replacement: bool) -> None:
    drawn = draw_stratified(NAMES, SIZES.__getitem__, 20, strata=4, seed=5, replacement=replacement)
    assert Counter(SIZES[name] // 25 for name in drawn) == {0: 5, 1: 5, 2: 5, 3: 5}
    assert drawn == draw_stratified(NAMES, SIZES.__getitem__, 20, strata=4, seed=5, replacement=replacement)


def test_the_test_split_has_about_the_fraction_asked_for() -> None:
    assert 1_800 < sum(is_test(f"m{number}", 0.2) for number in range(10_000)) < 2_200


def test_the_split_of_a_name_never_moves() -> None:
    assert [name for name in NAMES[:20] if is_test(name, 0.2)] == ["m2", "m3", "m4", "m7", "m10"]


def test_fit_and_valid_partition_train() -> None:
    parts = {part: {name for name in NAMES if is_part(name, part)} for part in PARTS}
    assert parts["train"] | parts["test"] == set(NAMES)
    assert parts["fit"] | parts["valid"] == parts["train"]
    assert not parts["train"] & parts["test"]
    assert not parts["fit"] & parts["valid"]
    assert 5 < len(parts["valid"]) < 30
