"""What the compiler's own heuristic achieves: a plain compile, measured once and kept on disk."""

from __future__ import annotations

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.session.session import Session
from mlgo_gym.storage.cache import JsonCache
from mlgo_gym.tasks.measurement import Measurement

_memory = JsonCache("baselines")


def known_baseline(compilation: Compilation, *, record: bool = False) -> Measurement | None:
    """Return the measurement of the plain compile if it was made before, by any process."""
    value = _memory.get(_key(compilation, record))
    if value is None:
        return None
    try:
        return Measurement.from_json(value)
    except (KeyError, TypeError):
        return None  # a record of another release of ours: measure again


def keep_baseline(compilation: Compilation, measurement: Measurement, *, record: bool = False) -> None:
    """Remember the measurement of a plain compile."""
    _memory.put(_key(compilation, record), measurement.to_json())


def baseline_session(compilation: Compilation, *, record: bool = False) -> Session:
    """Start the plain compile: the same clang, the same flags, nobody asked."""
    return Session(compilation.command, record=record)


def measure_baseline(compilation: Compilation, timeout: float, *, record: bool = False) -> Measurement:
    """Return what the compiler's own heuristic achieves, compiling only where it is not known yet.

    Args:
        compilation: the compile.
        timeout: the longest wait for it, in seconds.
        record: whether the register allocator's costs are needed too.

    Raises:
        CompilerError: the plain compile fails.
    """
    measurement = known_baseline(compilation, record=record)
    if measurement is None:
        with baseline_session(compilation, record=record) as session:
            measurement = Measurement.of(session.finish(timeout))
        keep_baseline(compilation, measurement, record=record)
    return measurement


def _key(compilation: Compilation, record: bool) -> str:
    return compilation.key("baseline", record)
