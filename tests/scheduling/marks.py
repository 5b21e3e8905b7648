"""Marks of tests on a Ray cluster."""

from __future__ import annotations

import pytest


def on_a_cluster(seconds: int) -> list[pytest.MarkDecorator]:
    """Return the marks of tests on the cluster; each may take `seconds`."""
    return [
        # Ray leaves sockets and files open until the process exits, and warns about future changes.
        pytest.mark.filterwarnings("ignore"),
        pytest.mark.timeout(seconds),
        # One cluster for all tests, never two at the same time.
        pytest.mark.xdist_group("ray"),
    ]
