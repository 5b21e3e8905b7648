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


def test_with_replacement_every_name_comes_about_as_often() -> None:
    counts = Counter(draw(NAMES[:10], 10_000, seed=1, replacement=True))
    assert len(counts) == 10
    assert all(850 < number < 1150 for number in counts.values())


def test_drawing_more_than_there_are_is_an_error_without_replacement() -> None:
    with pytest.raises(CorpusError, match="got 101"):
        draw(NAMES, 101, seed=0)
    assert len(draw(NAMES, 101, seed=0, replacement=True)) == 101


def test_drawing_from_nothing_is_an_error() -> None:
    with pytest.raises(CorpusError, match="expected modules to draw from"):
        draw([], 1, seed=0, replacement=True)


@pytest.mark.parametrize("replacement", [True, False])
def test_a_stratified_draw_takes_as_many_of_each_size(replacement: bool) -> None:
    drawn = draw_stratified(NAMES, SIZES.__getitem__, 20, strata=4, seed=5, replacement=replacement)
    assert Counter(SIZES[name] // 25 for name in drawn) == {0: 5, 1: 5, 2: 5, 3: 5}
    assert drawn == draw_stratified(NAMES, SIZES.__getitem__, 20, strata=4, seed=5, replacement=replacement)


def test_a_stratified_draw_of_all_has_each_name_once() -> None:
    drawn = draw_stratified(NAMES[:7], SIZES.__getitem__, 7, strata=3, seed=5)
    assert sorted(drawn) == sorted(NAMES[:7])


def test_more_strata_than_names_are_as_many_as_there_are_names() -> None:
    assert sorted(draw_stratified(NAMES[:3], SIZES.__getitem__, 3, strata=20, seed=5)) == NAMES[:3]


def test_the_test_split_has_about_the_fraction_asked_for() -> None:
    assert 1_800 < sum(is_test(f"m{number}", 0.2) for number in range(10_000)) < 2_200


def test_the_split_of_a_name_never_moves() -> None:
    assert [name for name in NAMES[:20] if is_test(name, 0.2)] == ["m2", "m3", "m4", "m7", "m10"]


def test_a_larger_test_split_keeps_the_smaller_one() -> None:
    smaller = {name for name in NAMES if is_test(name, 0.2)}
    assert smaller < {name for name in NAMES if is_test(name, 0.5)}


def test_fractions_of_zero_and_one_are_nothing_and_all() -> None:
    assert not any(is_test(name, 0.0) for name in NAMES)
    assert all(is_test(name, 1.0) for name in NAMES)


def test_fit_and_valid_partition_train() -> None:
    parts = {part: {name for name in NAMES if is_part(name, part)} for part in PARTS}
    assert parts["train"] | parts["test"] == set(NAMES)
    assert parts["fit"] | parts["valid"] == parts["train"]
    assert not parts["train"] & parts["test"]
    assert not parts["fit"] & parts["valid"]
    assert 5 < len(parts["valid"]) < 30


def test_a_validation_split_is_no_copy_of_the_test_split() -> None:
    train = [name for name in NAMES if is_part(name, "train", 0.0)]
    assert {name for name in train if is_part(name, "valid", 0.0)} != {name for name in train if is_test(name, 0.2)}
