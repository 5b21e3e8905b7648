"""Tools for tests of environments, also for those of other packages.

`running_compile(env)` returns the compile behind an environment: its process, and the advice that it received.
`finished_compiles()` collects the objects of compiles.
`FaultyClang` is a program for the argument `clang` of an environment, which fails on command. `fake_clang()` is the
command of a fake clang, for a `Session`. `check_environment()` and `check_vector_environment()` check that an
environment keeps the rules of Gymnasium, Stable-Baselines3 and this package.
"""

from mlgo_gym.integrations.testing.checks import check_environment, check_vector_environment
from mlgo_gym.integrations.testing.compiles import (
    FaultyClang,
    FinishedCompile,
    RunningCompile,
    finished_compiles,
    running_compile,
)
from mlgo_gym.integrations.testing.fake_clang import fake_clang

__all__ = [
    "FaultyClang",
    "FinishedCompile",
    "RunningCompile",
    "check_environment",
    "check_vector_environment",
    "fake_clang",
    "finished_compiles",
    "running_compile",
]
