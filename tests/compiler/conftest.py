"""Skips tests of copies where they are prohibited."""

import pytest

from mlgo_gym.compiler.snapshot_support import snapshot_support


@pytest.fixture
def can_fork() -> None:
    """Skip the test where ptrace is prohibited; nothing else is a reason to skip."""
    supported, reason = snapshot_support()
    if not supported and "not permitted" in reason:
        pytest.skip(reason)
