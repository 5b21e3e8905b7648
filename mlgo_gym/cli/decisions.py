"""How many decisions a module has, for the commands that show it."""

from __future__ import annotations

from mlgo_gym.compilation import plan
from mlgo_gym.corpus.corpus import Count
from mlgo_gym.corpus.module import Module
from mlgo_gym.decision_count import count_decisions
from mlgo_gym.envs import InlineEnv
from mlgo_gym.toolchain import Toolchain

_ENVIRONMENTS = (InlineEnv,)


def decision_counter(toolchain: Toolchain) -> tuple[tuple[str, ...], Count]:
    """Return the names of the tasks, and a function that counts a module's decisions for one of them.

    A count that is not known yet costs a compile.

    Raises:
        ToolchainError: the compiler cannot do one of the tasks.
    """
    clang = "bundled" if toolchain.bundled else toolchain.command[0]
    environments = [environment(clang=clang) for environment in _ENVIRONMENTS]
    tasks = {environment.task.name: environment.task for environment in environments}

    def count(module: Module, task: str) -> int:
        return count_decisions(plan(module, toolchain, tasks[task].flags(toolchain)), tasks[task])

    return tuple(tasks), count
