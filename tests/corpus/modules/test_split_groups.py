"""Groups of modules that a split keeps together, and their cached facts."""

from __future__ import annotations

from mlgo_gym.corpus.modules.corpus import Corpus
from mlgo_gym.corpus.modules.sampling import is_part
from mlgo_gym.corpus.modules.split_groups import first_of_groups
from tests.corpus.conftest import COUNT


def test_compiles_of_one_source_and_equal_modules_are_in_one_part(compiled_twice: Corpus) -> None:
    train, test = (set(compiled_twice.split(part).names) for part in ("train", "test"))
    assert train
    assert test
    for number in range(COUNT):
        assert ({f".libs/m{number}.o", f"m{number}.o"} <= train) or ({f".libs/m{number}.o", f"m{number}.o"} <= test)
    last = {f"{prefix}m{number}.o" for number in (COUNT - 2, COUNT - 1) for prefix in (".libs/", "")}
    assert last <= train or last <= test


def test_groups_are_connected_components_of_shared_facts() -> None:
    assert first_of_groups([("b", ("x",)), ("a", ("y",)), ("c", ("x", "z")), ("d", ("z",)), ("e", ())]) == {
        "b": "b",
        "c": "b",
        "d": "b",
        "a": "a",
        "e": "e",
    }
    assert is_part("a", "train") != is_part("a", "test")
