"""How many decisions a module has, for the commands that show it."""

from __future__ import annotations

from mlgo_gym.corpus.corpus import Count
from mlgo_gym.corpus.module import Module
from mlgo_gym.llvm.toolchain import Toolchain


def decision_counter(toolchain: Toolchain) -> tuple[tuple[str, ...], Count]:
    """Return the names of the tasks, and a function that counts a module's decisions for one of them.

    A count that is not known yet costs a compile.

    Raises:
        ToolchainError: the compiler cannot do one of the tasks.
    """
    from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv, RegAllocPriorityEnv

    clang = "bundled" if toolchain.bundled else toolchain.command[0]
    environments = {}
    for environment_type in (InlineEnv, RegAllocEvictEnv, RegAllocPriorityEnv):
        environment = environment_type(clang=clang)
        environments[environment.task.name] = environment

    def count(module: Module, task: str) -> int:
        return sum(environments[task].decisions(module).values())

    return tuple(environments), count
