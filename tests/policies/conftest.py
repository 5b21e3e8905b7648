"""Environments on small modules."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.integrations.normalize_features import record_observations
from mlgo_gym.make_env import make_environment


@pytest.fixture
def inline(corpus: Path) -> Iterator[CompilerEnv]:
    """The inlining environment."""
    with make_environment("mlgo/Inline-v0", {"corpus": str(corpus)}) as env:
        yield env


@pytest.fixture
def evict() -> Iterator[CompilerEnv]:
    """The eviction environment on programs that run out of registers."""
    with make_environment("mlgo/RegAllocEvict-v0", {"corpus": "builtin"}) as env:
        yield env


@pytest.fixture
def priority(corpus: Path) -> Iterator[CompilerEnv]:
    """The priority environment."""
    with make_environment("mlgo/RegAllocPriority-v0", {"corpus": str(corpus)}) as env:
        yield env


@pytest.fixture
def middle(inline: CompilerEnv) -> float:
    """A threshold that about half of the decisions of `calls` are below."""
    costs = record_observations(inline, observations=9)[:, inline.feature_names.index("cost_estimate")]
    return float(np.median(costs)) + 0.5
