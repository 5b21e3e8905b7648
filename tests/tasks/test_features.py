"""Features and measurements of tasks."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mlgo_gym.compiler.probe import probe
from mlgo_gym.envs.inline import InlineTask
from mlgo_gym.envs.inline_ir2vec import OLDEST_CLANG, InlineIR2VecTask
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import ADVISORS, INLINING, Advisor
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.llvm.training_log import SCALAR_TYPES, LogHeader, TensorSpec
from mlgo_gym.tasks.feature_layout import BOUND, FeatureLayout
from mlgo_gym.tasks.features import (
    COLUMNS,
    DIMENSIONS,
    EMBEDDINGS,
    ENTITIES,
    EVICTION_FEATURES,
    INLINING_FEATURES,
    PRIORITY_FEATURES,
    Feature,
)
from mlgo_gym.tasks.measurement import Measurement

MIXED = LogHeader(
    (
        TensorSpec("mask", "int64_t", (1, 3)),
        TensorSpec("count", "int64_t", (1,)),
        TensorSpec("weight", "float", (1, 2)),
        TensorSpec("progress", "float", (1,)),
    )
)


def record(mask: Any = (0, 0, 0), count: int = 0, weight: Any = (0, 0), progress: float = 0.0) -> bytes:
    return np.array([([mask], [count], [weight], [progress])], MIXED.dtype).tobytes()


@st.composite
def observations(draw: st.DrawFn) -> tuple[LogHeader, np.ndarray[Any, Any]]:
    """A header and one observation, with every scalar type, NaN and infinities."""
    shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
    specs = st.builds(TensorSpec, st.text("abc", min_size=1), st.sampled_from(sorted(SCALAR_TYPES)), shapes)
    header = LogHeader(tuple(draw(st.lists(specs, min_size=1, max_size=5, unique_by=lambda spec: spec.name))))
    values = np.zeros((), header.dtype)
    for spec in header.features:
        values[spec.name] = draw(arrays.arrays(spec.dtype, spec.shape))
    return header, values


@given(observations())
def test_a_flat_observation_has_the_finite_features(observation: tuple[LogHeader, np.ndarray[Any, Any]]) -> None:
    header, values = observation
    layout = FeatureLayout(header)
    flat = layout.flat(values.tobytes())
    expected = np.concatenate([values[spec.name].ravel().astype(np.float64) for spec in header.features])
    if any(spec.dtype.kind == "f" for spec in header.features):
        expected = np.clip(np.nan_to_num(expected, nan=0.0), -BOUND, BOUND)
    assert flat.dtype == np.float32
    assert layout.flat_space().contains(flat)
    np.testing.assert_array_equal(flat, expected.astype(np.float32))


def test_bounds_are_infinite_where_nothing_bounds_a_feature() -> None:
    layout = FeatureLayout(MIXED, bounds={"mask": (0, 1), "progress": (0, np.inf)}, caps={"weight": 100})
    flat = layout.flat_space()
    assert flat.low.tolist() == [0, 0, 0, -np.inf, -100, -100, 0, 0, 0]
    assert flat.high.tolist() == [1, 1, 1, np.inf, 100, 100, np.inf, 1, 1]
    # An infinite value becomes its cap and a flag.
    layout = FeatureLayout(MIXED, exclude_features=["mask"], caps={"weight": 100})
    assert layout.names == ("count", "weight[0]", "weight[1]", "progress", "weight_infinite[0]", "weight_infinite[1]")
    payload = record(count=2, weight=[np.inf, 200], progress=np.inf)
    assert layout.flat(payload).tolist() == [2, 100, 100, BOUND, 1, 0]
    assert layout.flat(record(weight=[-np.inf, np.nan])).tolist() == [0, -100, 0, 0, 0, 0]


def test_elements_are_named_by_feature_and_column_without_what_is_left_out() -> None:
    rest = ("count", "weight[0]", "weight[1]", "progress")
    assert FeatureLayout(MIXED).names == ("mask[0]", "mask[1]", "mask[2]", *rest)
    layout = FeatureLayout(MIXED, exclude_features=["mask"])
    assert layout.names == rest
    assert layout.flat(record([1, 1, 1], 2, [3, 4], 5)).tolist() == [2, 3, 4, 5]


ADVICE = {
    "inlining": ("inlining_decision", "int64_t"),
    "eviction": ("index_to_evict", "int64_t"),
    "priority": ("priority", "float"),
}
FEATURES = {"inlining": INLINING_FEATURES, "eviction": EVICTION_FEATURES, "priority": PRIORITY_FEATURES}
LENGTHS: dict[int | str, int] = {COLUMNS: 33, DIMENSIONS: len(ENTITIES)}


def tensor(feature: Feature) -> tuple[str, str, tuple[int, ...]]:
    shape = tuple(LENGTHS.get(length, length) for length in feature.shape)
    return feature.name, feature.type, tuple(int(length) for length in shape)


def tensors(advisor: str, version: int) -> list[tuple[str, str, tuple[int, ...]]]:
    return [tensor(feature) for feature in FEATURES[advisor] if feature.since <= version]


@pytest.mark.parametrize("advisor", ADVISORS, ids=lambda advisor: advisor.name)
def test_the_features_are_exactly_those_of_the_header(any_toolchain: Toolchain, advisor: Advisor) -> None:
    found = probe(any_toolchain, advisor)
    header, expected = found.header, tensors(advisor.name, any_toolchain.version[0])
    assert header.advice == TensorSpec(*ADVICE[advisor.name], (1,))
    assert len(found.first) == header.observation_bytes
    assert [(spec.name, spec.type, spec.shape) for spec in header.features] == expected


def test_a_vocabulary_adds_the_embeddings(any_toolchain: Toolchain) -> None:
    version = any_toolchain.version[0]
    if version < OLDEST_CLANG:
        pytest.skip(f"clang {version} is older than {OLDEST_CLANG}")
    flags = InlineIR2VecTask("one-hot").flags(any_toolchain)
    found = probe(any_toolchain, INLINING, flags).header.features
    *call_site, default = tensors("inlining", version)
    expected = [*call_site, *(tensor(feature) for feature in EMBEDDINGS), default]
    assert [(spec.name, spec.type, spec.shape) for spec in found] == expected


def test_a_compile_that_was_ended_early_has_no_size() -> None:
    with pytest.raises(MlgoError, match=r"expected a compile that went to its end for 'text', got one .* ended early"):
        InlineTask().outcome(Measurement(None, {}), "text")
