"""What the compiler's own heuristic achieves: a plain compile, measured once and kept on disk."""

from __future__ import annotations

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.session.session import Session
from mlgo_gym.storage.cache import JsonCache
from mlgo_gym.tasks.measurement import Measurement

_memory = JsonCache("baselines")


def known_baseline(compilation: Compilation, *, optimization_record: bool = False) -> Measurement | None:
    """Return the measurement of the plain compile if it was made before, by any process."""
    value = _memory.get(_key(compilation, optimization_record))
    if value is None:
        return None
    try:
        return Measurement.from_json(value)
    except (KeyError, TypeError):
        return None  # a record of another release of ours: measure again


def keep_baseline(compilation: Compilation, measurement: Measurement, *, optimization_record: bool = False) -> None:
    """Remember the measurement of a plain compile."""
    _memory.put(_key(compilation, optimization_record), measurement.to_json())


def baseline_session(compilation: Compilation, *, optimization_record: bool = False) -> Session:
    """Start the plain compile: the same clang, the same flags, nobody asked."""
    return Session(compilation.command, optimization_record=optimization_record, confined=compilation.confined)


def measure_baseline(compilation: Compilation, timeout: float, *, optimization_record: bool = False) -> Measurement:
    """Return what the compiler's own heuristic achieves, compiling only where it is not known yet.

    Args:
        compilation: the compile.
        timeout: the longest wait for it, in seconds.
        optimization_record: whether the register allocator's costs are needed too.

    Raises:
        CompilerError: the plain compile fails.
    """
    measurement = known_baseline(compilation, optimization_record=optimization_record)
    if measurement is None:
        with baseline_session(compilation, optimization_record=optimization_record) as session:
            measurement = Measurement.of(session.finish(timeout))
        keep_baseline(compilation, measurement, optimization_record=optimization_record)
    return measurement


def _key(compilation: Compilation, optimization_record: bool) -> str:
    return compilation.key("baseline", optimization_record)
