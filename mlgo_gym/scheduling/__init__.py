"""One scheduler behind one small interface: work is done here, in processes of this machine, or on a cluster."""

from mlgo_gym.scheduling.abroad import Abroad
from mlgo_gym.scheduling.here import Here
from mlgo_gym.scheduling.processes import Processes
from mlgo_gym.scheduling.ray_cluster import RayCluster
from mlgo_gym.scheduling.shelf import Good, Shelf
from mlgo_gym.scheduling.work import Backlog, EachAlone, Lost, Queue, Runner, Workers
from mlgo_gym.scheduling.workers import workers

__all__ = [
    "Abroad",
    "Backlog",
    "EachAlone",
    "Good",
    "Here",
    "Lost",
    "Processes",
    "Queue",
    "RayCluster",
    "Runner",
    "Shelf",
    "Workers",
    "workers",
]
