"""Scheduling: one interface for work in this process, in worker processes, and on a cluster."""

from mlgo_gym.scheduling.execution import Execution
from mlgo_gym.scheduling.ray_cluster import RayCluster
from mlgo_gym.scheduling.work import (
    FileStore,
    InProcess,
    ItemQueue,
    Queue,
    RemoteWork,
    Runner,
    SequentialRunner,
    StoredFiles,
    WorkerFailure,
    Workers,
)

__all__ = [
    "Execution",
    "FileStore",
    "InProcess",
    "ItemQueue",
    "Queue",
    "RayCluster",
    "RemoteWork",
    "Runner",
    "SequentialRunner",
    "StoredFiles",
    "WorkerFailure",
    "Workers",
]
