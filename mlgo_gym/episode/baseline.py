"""A module under clang's own heuristic: its measurement and its numbers of decisions, found once and kept on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from mlgo_gym.compiler.connection import CompileResult
from mlgo_gym.compiler.coroutine import CompilerCoroutine, drive_coroutine, run_blocking
from mlgo_gym.compiler.decision import Decision, functions_of
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.cache import JsonCache
from mlgo_gym.tasks.measurement import Measurement
from mlgo_gym.tasks.task import Task

watchers: list[Callable[[CompileResult, bool], None]] = []
"""Functions that get each finished compile, and whether plain clang decided; `mlgo_gym.testing` adds one."""

_memory = JsonCache("baselines")
_decisions = JsonCache("decisions")


def known_baseline(
    compilation: Compilation, *, optimization_record: bool = False, answered: bool = False
) -> Measurement | None:
    """Return the measurement of the plain compile, or None if no process has measured it yet.

    With `optimization_record` it includes the costs of register allocation. With `answered` it is that of the compile
    whose decisions were all answered with clang's own choice. The two rarely differ: over the channel clang stops
    requesting decisions when the module has grown too much.
    """
    value = _memory.get(_key(compilation, optimization_record, answered))
    if value is None:
        return None
    try:
        return Measurement.from_json(value)
    except (KeyError, TypeError):
        return None  # written by another release


def keep_baseline(
    compilation: Compilation, measurement: Measurement, *, optimization_record: bool = False, answered: bool = False
) -> None:
    """Keep the measurement of a plain compile; arguments as in `known_baseline()`."""
    _memory.put(_key(compilation, optimization_record, answered), measurement.to_json())


def measure_baseline(compilation: Compilation, timeout: float, *, optimization_record: bool = False) -> Measurement:
    """Return the measurement of the plain compile; compile only if it is not known. Raises `CompilerError`."""
    return run_blocking(baseline_coroutine(compilation, optimization_record=optimization_record), timeout)


def baseline_coroutine(compilation: Compilation, *, optimization_record: bool) -> CompilerCoroutine[Measurement]:
    """Return `measure_baseline()` as a coroutine for an event loop."""
    measurement = known_baseline(compilation, optimization_record=optimization_record)
    if measurement is None:
        with compilation.session(optimization_record=optimization_record) as session:
            yield session
            compiled = session.finish(0.0)
        for watch in watchers:
            watch(compiled, True)
        measurement = Measurement.of(compiled)
        keep_baseline(compilation, measurement, optimization_record=optimization_record)
    return measurement


def _key(compilation: Compilation, optimization_record: bool, answered: bool) -> str:
    return compilation.key("answered" if answered else "baseline", optimization_record)


def known_decisions(compilation: Compilation, task: Task, *, components: bool = False) -> dict[str, int] | None:
    """Return the numbers of decisions by context, in the order in which clang visits them; None if not counted yet.

    The context is a function for register allocation. For inlining it is empty, or with `components` a component of the
    call graph. Contexts without a decision are absent.
    """
    record = _decisions.get(_decisions_key(compilation, task, components))
    counts = record.get("contexts") if record else None
    return dict(counts) if isinstance(counts, list) else None


def keep_decisions(
    compilation: Compilation, task: Task, counts: Mapping[str, int], *, components: bool = False
) -> None:
    """Keep the numbers of decisions by context; arguments as in `known_decisions()`."""
    _decisions.put(_decisions_key(compilation, task, components), {"contexts": list(counts.items())})


def _decisions_key(compilation: Compilation, task: Task, components: bool) -> str:
    return compilation.key("components" if components else "decisions", task.name)


def count(compilation: Compilation, task: Task) -> CompilerCoroutine[dict[str, int]]:
    """Return `known_decisions()` under clang's own choices, as a coroutine; compile if they are not known."""
    counts = known_decisions(compilation, task)
    if counts is None:
        counts, _ = yield from _count(compilation, task, contexts=False)
        keep_decisions(compilation, task, counts)
    return counts


def count_components(compilation: Compilation, task: Task) -> CompilerCoroutine[tuple[dict[str, int], Measurement]]:
    """Return, as a coroutine, the inlining decisions by component and the measurement of that compile."""
    counts = known_decisions(compilation, task, components=True)
    measurement = known_baseline(compilation, answered=True)
    if counts is None or measurement is None:
        counts, compiled = yield from _count(compilation, task, contexts=True)
        measurement = Measurement.of(compiled)
        keep_decisions(compilation, task, counts, components=True)
        keep_baseline(compilation, measurement, answered=True)
    return counts, measurement


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


def component_of(components: Iterable[str], function: str) -> str:
    """Return the component with this name, or the only one with this function, or the name; `MlgoError` for several."""
    containing = [component for component in components if function in (component, *functions_of(component))]
    if function in containing:
        return function
    if len(containing) > 1:
        raise MlgoError(f"expected a function of one component, got {function!r}; name one of {containing}")
    return containing[0] if containing else function
