"""The baseline: a plain compile by clang's own heuristic, measured once and kept on disk."""

from __future__ import annotations

from collections.abc import Callable

from mlgo_gym.compiler.connection import CompileResult
from mlgo_gym.compiler.coroutine import CompilerCoroutine, run_blocking
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.storage.cache import JsonCache
from mlgo_gym.tasks.measurement import Measurement

watchers: list[Callable[[CompileResult, bool], None]] = []
"""Functions that get each finished compile, and whether plain clang decided; `mlgo_gym.testing` adds one."""

_memory = JsonCache("baselines")


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
