"""Scheduling: one interface for work in this process, in worker processes, and on a cluster."""

from mlgo_gym.scheduling.execution import Execution, InProcess
from mlgo_gym.scheduling.file_store import FileStore, StoredFiles
from mlgo_gym.scheduling.processes import Processes
from mlgo_gym.scheduling.ray_cluster import RayCluster
from mlgo_gym.scheduling.work import ItemQueue, Queue, RemoteWork, Runner, SequentialRunner, WorkerFailure, Workers

__all__ = [
    "Execution",
    "FileStore",
    "InProcess",
    "ItemQueue",
    "Processes",
    "Queue",
    "RayCluster",
    "RemoteWork",
    "Runner",
    "SequentialRunner",
    "StoredFiles",
    "WorkerFailure",
    "Workers",
]
