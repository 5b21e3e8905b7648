"""Fixtures of the tests of evaluation."""

from multiprocessing import resource_tracker

import pytest


@pytest.fixture(scope="session", autouse=True)
def tracker() -> None:
    """Start the process that multiprocessing keeps to the end of the program, so that no test seems to leak it."""
    resource_tracker.ensure_running()
