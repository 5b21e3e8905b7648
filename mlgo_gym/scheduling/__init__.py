"""Scheduling: one interface for work in this process, in worker processes, and on a cluster."""

from mlgo_gym.scheduling.execution import Execution as Execution
from mlgo_gym.scheduling.ray_cluster import RayCluster as RayCluster
from mlgo_gym.scheduling.work import FileStore as FileStore
from mlgo_gym.scheduling.work import RemoteWork as RemoteWork
from mlgo_gym.scheduling.work import SequentialRunner as SequentialRunner
from mlgo_gym.scheduling.work import StoredFiles as StoredFiles
from mlgo_gym.scheduling.work import WorkerFailure as WorkerFailure
from mlgo_gym.scheduling.workers import Workers as Workers
from mlgo_gym.scheduling.workers import in_process as in_process
from mlgo_gym.scheduling.workers import processes as processes
