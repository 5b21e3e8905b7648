"""What tests on a Ray cluster have in common."""

from __future__ import annotations

import pytest


def on_a_cluster(seconds: int) -> list[pytest.MarkDecorator]:
    """The further marks of tests on the cluster, which may take so long each."""
    return [
        # Ray leaves sockets and files for the end of the process, and warns about what it will do one day.
        pytest.mark.filterwarnings("ignore"),
        pytest.mark.timeout(seconds),
        # One cluster for all, and none beside it.
        pytest.mark.xdist_group("ray"),
    ]
