"""A Ray cluster of two nodes, for tests that need one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlgo_gym.scheduling.ray_cluster import ray_library


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a cluster of two nodes with one CPU each."""
    # Its settings are for the nodes too: with Ray's default niceness other tests would starve their workers.
    ray_library()
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="mlgo-ray-test-", dir="/tmp")
    store = {"object_store_memory": 80 << 20, "include_dashboard": False}
    Path("/tmp/ray").mkdir(exist_ok=True)
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "temp_dir": folder, **store})
    try:
        nodes.add_node(num_cpus=1, object_store_memory=80 << 20)
        yield nodes.address
    finally:
        nodes.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
