"""The table of features is complete for every clang: it has each feature of the header."""

from __future__ import annotations

import shutil

import pytest

from mlgo_gym.envs.inline_ir2vec import OLDEST_CLANG, InlineIR2VecTask
from mlgo_gym.episode.probe import probe
from mlgo_gym.llvm.advisors import ADVISORS, INLINING, Advisor
from mlgo_gym.llvm.ir2vec import ENTITIES
from mlgo_gym.llvm.toolchain import OLDEST_SUPPORTED, Toolchain, find_toolchain
from mlgo_gym.tasks.feature_table import (
    COLUMNS,
    DIMENSIONS,
    EMBEDDINGS,
    FEATURES,
    Feature,
    stage_names,
)

CLANGS = ["bundled", *(f"clang-{version}" for version in range(OLDEST_SUPPORTED, 23))]
LENGTHS: dict[int | str, int] = {COLUMNS: 33, DIMENSIONS: len(ENTITIES)}


@pytest.fixture(
    scope="module", params=[CLANGS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in CLANGS[1:])]
)
def every_toolchain(request: pytest.FixtureRequest) -> Toolchain:
    """Each clang from 17 on that is on PATH."""
    name: str = request.param
    if name != "bundled" and shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return find_toolchain(name)


def tensor(feature: Feature) -> tuple[str, str, tuple[int, ...]]:
    shape = tuple(LENGTHS.get(length, length) for length in feature.shape)
    return feature.name, feature.type, tuple(int(length) for length in shape)


def tensors(advisor: str, version: int) -> list[tuple[str, str, tuple[int, ...]]]:
    return [tensor(feature) for feature in FEATURES[advisor] if feature.since <= version]


@pytest.mark.parametrize("advisor", ADVISORS, ids=lambda advisor: advisor.name)
def test_the_features_are_exactly_those_of_the_header(every_toolchain: Toolchain, advisor: Advisor) -> None:
    header = probe(every_toolchain, advisor).header
    expected = tensors(advisor.name, every_toolchain.version[0])
    assert [(spec.name, spec.type, spec.shape) for spec in header.features] == expected


def test_a_vocabulary_adds_the_embeddings(every_toolchain: Toolchain) -> None:
    version = every_toolchain.version[0]
    if version < OLDEST_CLANG:
        pytest.skip(f"clang {version} is older than {OLDEST_CLANG}")
    flags = InlineIR2VecTask("one-hot").flags(every_toolchain)
    found = probe(every_toolchain, INLINING, flags).header.features
    *call_site, default = tensors("inlining", version)
    expected = [*call_site, *(tensor(feature) for feature in EMBEDDINGS), default]
    assert [(spec.name, spec.type, spec.shape) for spec in found] == expected


def test_the_last_stage_is_done_whatever_its_number() -> None:
    assert [len(stage_names(version)) for version in range(17, 23)] == [7, 7, 7, 7, 6, 6]
    assert {stage_names(version)[-1] for version in range(17, 23)} == {"done"}
    assert {stage_names(version)[:5] for version in range(17, 23)} == {stage_names(22)[:5]}
