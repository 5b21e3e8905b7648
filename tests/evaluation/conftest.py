"""Fixtures of the tests of evaluation."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import resource_tracker
from typing import Any

import pytest

from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.record import EpisodeRecord
from tests.evaluation import runs

MakeResult = Callable[..., EpisodeRecord]


@pytest.fixture(scope="session", autouse=True)
def tracker() -> None:
    """Start the process that multiprocessing keeps to the end of the program, so that no test seems to leak it."""
    resource_tracker.ensure_running()


@pytest.fixture
def make_result() -> MakeResult:
    """Return a function that makes an episode result from policy, module and text sizes."""

    def make(policy: str, module: str, size: int = 90, baseline: int = 100, **more: Any) -> EpisodeRecord:
        fields: dict[str, Any] = {"project": "p", "status": "done", "metrics": {"text": (size, baseline)}}
        return EpisodeRecord(policy, module, **{**fields, **more})

    return make


@pytest.fixture
def configuration() -> Configuration:
    """A configuration with one policy."""
    return runs.configuration(modules=3, levels={"folder": {"Oz": 3}})
