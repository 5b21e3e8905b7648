"""How many inlining decisions each component of a module raises, and what its clang's own choices come to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.baseline import keep_baseline, known_baseline
from mlgo_gym.errors import MlgoError
from mlgo_gym.session.session import Session
from mlgo_gym.session.work import Work
from mlgo_gym.storage.cache import JsonCache
from mlgo_gym.tasks.measurement import Measurement
from mlgo_gym.tasks.task import Task

_memory = JsonCache("components")


class Components(NamedTuple):
    """The compile in which clang's own choice answers every question.

    Attributes:
        decisions: how many decisions each component raises, in the order in which clang first comes to them.
        measurement: what the compile achieved.
    """

    decisions: Mapping[str, int]
    measurement: Measurement

    def find(self, function: str) -> str | None:
        """Return the component that a name means: its own name, or that of one of its functions.

        Raises:
            MlgoError: the function is part of several components, none of which it is alone.
        """
        if function in self.decisions:
            return function
        found = [component for component in self.decisions if function in component.split(", ")]
        if len(found) > 1:
            raise MlgoError(f"one component was wanted, and {function!r} is part of several: name one of {found}")
        return found[0] if found else None


def count_components(compilation: Compilation, task: Task) -> Work[Components]:
    """Compile once, all answers clang's own, and count; as work for an event loop too. Kept on disk.

    Args:
        compilation: the compile.
        task: the bound task, whose only advisor is the inliner's.

    Raises:
        CompilerError: the compile failed.
        ToolchainError: clang does not say where it inlines.
    """
    key = compilation.key("components", task.name)
    record, measurement = _memory.get(key), known_baseline(compilation, answered=True)
    if record is not None and measurement is not None and isinstance(record.get("decisions"), list):
        return Components(dict(record["decisions"]), measurement)
    counts: Counter[str] = Counter()
    confined = compilation.confined
    with Session(
        compilation.command, task.advisors, confined=confined, limits=compilation.limits, contexts=True, callees=False
    ) as session:
        while (decision := (yield session)) is not None:
            session.advise(task.default_advice(decision))
            counts[decision.context] += 1
        measurement = Measurement.of(session.finish(0.0))
    _memory.put(key, {"decisions": list(counts.items())})
    keep_baseline(compilation, measurement, answered=True)
    return Components(dict(counts), measurement)
