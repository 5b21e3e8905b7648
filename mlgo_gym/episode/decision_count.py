"""How many decisions a module raises, in which functions: counted once and kept on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.session.session import Session
from mlgo_gym.session.work import Work, complete
from mlgo_gym.storage.cache import JsonCache
from mlgo_gym.tasks.task import Task

_memory = JsonCache("decisions")


def known_decisions(compilation: Compilation, task: Task) -> dict[str, int] | None:
    """Return the decisions per context when clang's own choices are taken, if they were counted before.

    The contexts are in the order in which clang comes to them.
    """
    record = _memory.get(compilation.key("decisions", task.name))
    counts = record.get("contexts") if record else None
    return dict(counts) if isinstance(counts, list) else None


def keep_decisions(compilation: Compilation, task: Task, counts: Mapping[str, int]) -> None:
    """Remember the decisions per context."""
    _memory.put(compilation.key("decisions", task.name), {"contexts": list(counts.items())})


def count_decisions(compilation: Compilation, task: Task, timeout: float = 600.0) -> dict[str, int]:
    """Return the decisions per context when clang's own choices are taken; compiles only where they are not known yet.

    The context is a function for register allocation and empty for inlining. A context without a decision is left out.

    Raises:
        CompilerError: the compile fails, or clang is silent for longer than `timeout` seconds.
    """
    return complete(count(compilation, task), timeout)


def count(compilation: Compilation, task: Task) -> Work[dict[str, int]]:
    """Do what `count_decisions()` does, as work for an event loop too."""
    known = known_decisions(compilation, task)
    if known is not None:
        return known
    counts: Counter[str] = Counter()
    with Session(
        compilation.command, task.advisors, confined=compilation.confined, limits=compilation.limits
    ) as session:
        while (decision := (yield session)) is not None:
            session.advise(task.default_advice(decision))
            counts[decision.context] += 1
        session.finish(0.0)
    keep_decisions(compilation, task, counts)
    return dict(counts)
