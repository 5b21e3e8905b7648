"""Work on many items, wherever it is done: in this process, or in several of this machine."""

from mlgo_gym.scheduling.here import Here
from mlgo_gym.scheduling.processes import Processes
from mlgo_gym.scheduling.work import Backlog, EachAlone, Lost, Queue, Runner, Workers
from mlgo_gym.scheduling.workers import workers

__all__ = ["Backlog", "EachAlone", "Here", "Lost", "Processes", "Queue", "Runner", "Workers", "workers"]
