"""What the compiler's own heuristic achieves: a plain compile, measured once and kept on disk."""

from __future__ import annotations

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.session.session import Session
from mlgo_gym.storage.cache import JsonCache
from mlgo_gym.tasks.measurement import Measurement

_memory = JsonCache("baselines")


def known_baseline(
    compilation: Compilation, *, optimization_record: bool = False, answered: bool = False
) -> Measurement | None:
    """Return the measurement of the plain compile if it was made before, by any process.

    Args:
        compilation: the compile.
        optimization_record: whether the register allocator's costs are needed too.
        answered: whether the compile is wanted instead in which clang's own choice answers every question: rarely they
            differ, since a clang that asks stops asking when its estimate of the module has grown too much.
    """
    value = _memory.get(_key(compilation, optimization_record, answered))
    if value is None:
        return None
    try:
        return Measurement.from_json(value)
    except (KeyError, TypeError):
        return None  # a record of another release of ours: measure again


def keep_baseline(
    compilation: Compilation, measurement: Measurement, *, optimization_record: bool = False, answered: bool = False
) -> None:
    """Remember the measurement of a plain compile; the arguments are those of `known_baseline()`."""
    _memory.put(_key(compilation, optimization_record, answered), measurement.to_json())


def baseline_session(compilation: Compilation, *, optimization_record: bool = False) -> Session:
    """Start the plain compile: the same clang, the same flags, nobody asked."""
    return Session(
        compilation.command,
        optimization_record=optimization_record,
        confined=compilation.confined,
        limits=compilation.limits,
    )


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


def _key(compilation: Compilation, optimization_record: bool, answered: bool = False) -> str:
    return compilation.key("answered" if answered else "baseline", optimization_record)
