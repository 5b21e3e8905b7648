"""Batched infos equal Gymnasium's."""

from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import VectorEnv

from mlgo_gym.episode.vector.in_process import batch_infos, unbatch_infos

SIZE = 4


def of_gymnasium(infos: dict[int, dict[str, Any]]) -> dict[str, Any]:
    envs: VectorEnv[Any, Any, Any] = VectorEnv()
    envs.num_envs = SIZE
    batch: dict[str, Any] = {}
    for number, info in infos.items():
        batch = envs._add_info(batch, info, number)
    return batch


VALUES: dict[str, list[Any]] = {
    "integers": [1, -(2**40), 0],
    "floats": [0.5, float("inf"), -0.0],
    "booleans": [True, False, True],
    "texts": ["a", "", "calls"],
    "nothing": [None, None, None],
    "numpy integers": [np.int64(3), np.int64(4), np.int64(5)],
    "numpy floats": [np.float32(0.1), np.float32(3), np.float32(4)],
    "numpy booleans": [np.True_, np.False_, np.True_],
    "arrays": [np.arange(3, dtype=np.int8), np.ones(3, np.int8), np.zeros(3, np.int8)],
    "tables": [np.ones((2, 3), np.float32)] * 3,
    "scalars in arrays": [np.array(1.5), np.array(2.5), np.array(0.0)],
    "lists": [[1, 2], [], [{"a": 1}]],
    "dictionaries": [{"a": 1, "b": "x"}, {"a": 2}, {}],
    "deep dictionaries": [{"a": {"b": {"c": 1.5}}}, {"a": {"b": {"c": 2.5, "d": None}}}, {"a": {}}],
    "an integer, then floats": [1, 2.5, 3.5],
    "a float, then integers": [1.5, 2, 3],
    "no entries, then some": [{}, {"b": 1.5, "c": ""}, {"a": 1, "b": 2.5, "c": "calls"}],
    "nothing, then an array": [None, np.arange(3), "x"],
}


def plain(value: Any) -> Any:
    """Return a value with NumPy's numbers and arrays as Python's."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


@pytest.mark.parametrize("kind", VALUES)
def test_each_kind_of_value_is_batched_as_gymnasium_does_and_unbatched_again(kind: str) -> None:
    for numbers in ((0, 1, 2), (3, 1, 0), (2,)):
        infos = {number: {"key": value} for number, value in zip(numbers, VALUES[kind], strict=False)}
        assert data_equivalence(batch_infos(infos, SIZE), of_gymnasium(infos), exact=True)
    if ", then " not in kind:
        rows = [{"key": value, "common": 1} for value in VALUES[kind]]
        assert data_equivalence(plain(unbatch_infos(batch_infos(dict(enumerate(rows)), 3), 3)), plain(rows))


@pytest.mark.parametrize("values", [[1, None], [-11, "none"], [np.zeros(2), np.zeros(3)], [1.5, {"a": 1}]], ids=str)
def test_values_that_do_not_fit_together_are_objects(values: list[Any]) -> None:
    batch = batch_infos({0: {"key": values[0]}, 2: {"key": values[1]}}, SIZE)
    assert batch["key"].dtype == object
    assert batch["key"][0] is values[0]
    assert batch["key"][2] is values[1]
    assert batch["_key"].tolist() == [True, False, True, False]


def test_a_key_is_returned_only_where_it_is_present() -> None:
    assert batch_infos({}, SIZE) == batch_infos({1: {}}, SIZE) == {}
    infos: dict[int, dict[str, Any]] = {0: {"final_info": {"module": "calls"}}, 2: {"skipped": {"a": "crash"}}}
    assert unbatch_infos(batch_infos(infos, 3), 3) == [infos[0], {}, infos[2]]
    assert unbatch_infos({"env_id": np.array([4, 7])}, 2) == [{"env_id": 4}, {"env_id": 7}]
