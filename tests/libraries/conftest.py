"""Fixtures of every library's test: an environment's id, and arguments that keep its episodes short."""

from typing import Any

import pytest

from mlgo_gym.make_env import compiler_environments


@pytest.fixture(params=sorted(compiler_environments()))
def name(request: pytest.FixtureRequest) -> str:
    """Each registered environment."""
    chosen: str = request.param
    return chosen


@pytest.fixture
def short(varied: str) -> dict[str, Any]:
    """The arguments of an environment of tiny modules, of which few decisions are the agent's, who may know no mask."""
    return {"corpus": varied, "max_decisions": 4, "strict": False}
