"""Tools for tests of environments, also for those of other packages.

`running_compile(env)` returns the compile behind an environment: its process, and the advice that it received.
"""

from mlgo_gym.testing.running_compile import RunningCompile, running_compile

__all__ = ["RunningCompile", "running_compile"]
