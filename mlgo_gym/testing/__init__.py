"""Tools for tests of environments, also for those of other packages.

`running_compile(env)` returns the compile behind an environment: its process, and the advice that it received.
`finished_compiles()` collects the objects of compiles.
"""

from mlgo_gym.testing.finished_compiles import FinishedCompile, finished_compiles
from mlgo_gym.testing.running_compile import RunningCompile, running_compile

__all__ = ["FinishedCompile", "RunningCompile", "finished_compiles", "running_compile"]
