"""Numbers of decisions of a module by context: counted once by a compile, and kept on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from mlgo_gym.compiler.connection import CompileResult
from mlgo_gym.compiler.coroutine import CompilerCoroutine, drive_coroutine
from mlgo_gym.compiler.decision import Decision, functions_of
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.episode.baseline import keep_baseline, known_baseline
from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.cache import JsonCache
from mlgo_gym.tasks.measurement import Measurement
from mlgo_gym.tasks.task import Task

_decisions = JsonCache("decisions")
_components = JsonCache("components")


def known_decisions(compilation: Compilation, task: Task) -> dict[str, int] | None:
    """Return the numbers of decisions by context, in the order in which clang visits them; None if not counted yet."""
    record = _decisions.get(compilation.key("decisions", task.name))
    counts = record.get("contexts") if record else None
    return dict(counts) if isinstance(counts, list) else None


def keep_decisions(compilation: Compilation, task: Task, counts: Mapping[str, int]) -> None:
    """Keep the numbers of decisions by context."""
    _decisions.put(compilation.key("decisions", task.name), {"contexts": list(counts.items())})


def count(compilation: Compilation, task: Task) -> CompilerCoroutine[dict[str, int]]:
    """Return, as a coroutine, the numbers of decisions by context under clang's own choices; compile if not known.

    The context is a function for register allocation and empty for inlining. Contexts without a decision are absent.
    """
    counts = known_decisions(compilation, task)
    if counts is None:
        counts, _ = yield from _count(compilation, task, contexts=False)
        keep_decisions(compilation, task, counts)
    return counts


def _count(
    compilation: Compilation, task: Task, *, contexts: bool
) -> CompilerCoroutine[tuple[dict[str, int], CompileResult]]:
    counts: Counter[str] = Counter()

    def choose(decision: Decision) -> bytes:
        counts[decision.context] += 1
        return task.default_advice(decision)

    with compilation.session(task.advisors, contexts=contexts, callees=False) as session:
        compiled = yield from drive_coroutine(session, choose)
    return dict(counts), compiled


class Components(NamedTuple):
    """The inlining decisions of a compile whose decisions were all answered with clang's own choice.

    Attributes:
        decisions: Number of decisions of each component of the call graph, in the order of clang's first visits.
        measurement: Measurement of the compile.
    """

    decisions: Mapping[str, int]
    measurement: Measurement

    def find(self, function: str) -> str | None:
        """Return the component with this name, or the only one with this function; `MlgoError` for several."""
        if function in self.decisions:
            return function
        components = [component for component in self.decisions if function in functions_of(component)]
        if len(components) > 1:
            raise MlgoError(f"expected a function of one component, got {function!r}; name one of {components}")
        return components[0] if components else None


def count_components(compilation: Compilation, task: Task) -> CompilerCoroutine[Components]:
    """Return the inlining decisions by component, as a coroutine; compile only if they are not known."""
    key = compilation.key("components", task.name)
    record, measurement = _components.get(key), known_baseline(compilation, answered=True)
    if record is not None and measurement is not None and isinstance(record.get("decisions"), list):
        return Components(dict(record["decisions"]), measurement)
    counts, compiled = yield from _count(compilation, task, contexts=True)
    measurement = Measurement.of(compiled)
    _components.put(key, {"decisions": list(counts.items())})
    keep_baseline(compilation, measurement, answered=True)
    return Components(counts, measurement)
