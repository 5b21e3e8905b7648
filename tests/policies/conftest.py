"""Environments on small modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.make_env import make_environment


@pytest.fixture
def inline(corpus: Path) -> Iterator[CompilerEnv]:
    """The inlining environment."""
    env = make_environment("mlgo/Inline-v0", {"corpus": str(corpus)})
    yield env
    env.close()


@pytest.fixture
def evict() -> Iterator[CompilerEnv]:
    """The eviction environment on programs that run out of registers."""
    env = make_environment("mlgo/RegAllocEvict-v0", {"corpus": "builtin"})
    yield env
    env.close()


@pytest.fixture
def priority(corpus: Path) -> Iterator[CompilerEnv]:
    """The priority environment."""
    env = make_environment("mlgo/RegAllocPriority-v0", {"corpus": str(corpus)})
    yield env
    env.close()
