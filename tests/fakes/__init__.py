"""Fakes of compilers."""

from mlgo_gym import testing


def fake_clang(behaviour: str) -> tuple[str, ...]:
    """Return `mlgo_gym.testing.fake_clang(behaviour)`; `silent` never opens its channel."""
    return testing.fake_clang({"silent": "stall@start"}.get(behaviour, behaviour))
