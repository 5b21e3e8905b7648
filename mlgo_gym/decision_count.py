"""How many decisions a module raises, counted once and kept on disk."""

from __future__ import annotations

from mlgo_gym.cache import JsonCache
from mlgo_gym.compilation import Compilation
from mlgo_gym.session import Session
from mlgo_gym.task import Task

_memory = JsonCache("decisions")


def known_decisions(compilation: Compilation, task: Task) -> int | None:
    """Return the number of decisions when clang's own choices are taken, if it was counted before."""
    record = _memory.get(compilation.key("decisions", task.name))
    count = record.get("decisions") if record else None
    return count if type(count) is int else None


def keep_decisions(compilation: Compilation, task: Task, count: int) -> None:
    """Remember a count."""
    _memory.put(compilation.key("decisions", task.name), {"decisions": count})


def count_decisions(compilation: Compilation, task: Task, timeout: float = 600.0) -> int:
    """Return the number of decisions when clang's own choices are taken, compiling only where it is not known yet.

    Raises:
        CompilerError: the compile fails, or clang is silent for longer than `timeout` seconds.
    """
    count = known_decisions(compilation, task)
    if count is None:
        count = 0
        with Session(compilation.command, task.advisors) as session:
            while (decision := session.wait(timeout)) is not None:
                session.advise(task.default_advice(decision))
                count += 1
            session.finish(timeout)
        keep_decisions(compilation, task, count)
    return count
