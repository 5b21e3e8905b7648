"""A module under clang's own heuristic: measurement, decisions and optimised bitcode, made once and kept on disk."""

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from mlgo_gym.cache import FileCache, JsonCache
from mlgo_gym.compiler.coroutine import CompilerCoroutine, drive_coroutine, run_blocking
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.tasks.measurement import Measurement
from mlgo_gym.tasks.task import Task

_memory = JsonCache("baselines")
_decisions = JsonCache("decisions")
_optimized = FileCache("optimized", ".bc")

_EMIT_OBJECT = "-emit-obj"


def measure_baseline(compilation: Compilation, timeout: float, *, optimization_record: bool = False) -> Measurement:
    """Return the measurement of the plain compile; compile only if no process has measured it yet.

    With `optimization_record` it includes the costs of register allocation. Raises `CompilerError`.
    """
    return run_blocking(baseline_coroutine(compilation, optimization_record=optimization_record), timeout)


def baseline_coroutine(compilation: Compilation, *, optimization_record: bool) -> CompilerCoroutine[Measurement]:
    """Return `measure_baseline()` as a coroutine for an event loop."""
    key = compilation.key("baseline", optimization_record)
    with suppress(KeyError, TypeError):  # unknown, or written by another release
        return Measurement.from_json(_memory.get(key) or {})
    with compilation.session(optimization_record=optimization_record) as session:
        yield session
        compiled = session.finish(0.0)
    measurement = Measurement.of(compiled)
    _memory.put(key, measurement.to_json())
    return measurement


def known_decisions(compilation: Compilation, task: Task) -> dict[str, int] | None:
    """Return the numbers of decisions by context, in the order in which clang visits them; None if not counted yet.

    The context is a function for register allocation, and empty for inlining. Contexts without a decision are absent.
    """
    record = _decisions.get(_decisions_key(compilation, task))
    counts = record.get("contexts") if record else None
    return dict(counts) if isinstance(counts, list) else None


def keep_decisions(compilation: Compilation, task: Task, counts: Mapping[str, int]) -> None:
    """Keep the numbers of decisions by context; arguments as in `known_decisions()`."""
    _decisions.put(_decisions_key(compilation, task), {"contexts": list(counts.items())})


def _decisions_key(compilation: Compilation, task: Task) -> str:
    return compilation.key("decisions", task.name)


def count(compilation: Compilation, task: Task) -> CompilerCoroutine[dict[str, int]]:
    """Return `known_decisions()` under clang's own choices, as a coroutine; compile if they are not known."""
    known = known_decisions(compilation, task)
    if known is not None:
        return known
    counts: Counter[str] = Counter()

    def choose(decision: Decision) -> bytes:
        counts[decision.context] += 1
        return task.default_advice(decision)

    with compilation.session(task.advisors) as session:
        yield from drive_coroutine(session, choose)
    keep_decisions(compilation, task, counts)
    return dict(counts)


def preoptimize(compilation: Compilation) -> CompilerCoroutine[Compilation]:
    """Return, as a coroutine, the compile that starts from the module's optimised bitcode, which is kept on disk.

    That compile with `-disable-llvm-passes` gives the same object byte for byte. A module with a ThinLTO index is
    always compiled in full: the optimiser also performs its imports.
    """
    if compilation.module.thinlto_index is not None or _EMIT_OBJECT not in compilation.flags:
        return compilation
    key = compilation.key("optimized", "uselists")
    path = _optimized.get(key)
    if path is None:
        flags = ["-emit-llvm-bc" if flag == _EMIT_OBJECT else flag for flag in compilation.flags]
        # Loop strength reduction depends on the order of uses, which bitcode drops by default.
        emitting = replace(compilation, flags=(*flags, "-emit-llvm-uselists"))
        with emitting.session() as session:
            yield session
            optimized = session.finish(0.0).object_bytes
        try:
            path = _optimized.put(key, optimized)
        except OSError:
            return compilation  # in full each time, since nothing can be kept
    # The recorded digest is that of the bitcode before the optimiser.
    metadata = {name: fact for name, fact in compilation.module.metadata.items() if name != "bitcode_sha256"}
    return replace(
        compilation,
        module=replace(compilation.module, bitcode=path, metadata=metadata),
        flags=(*compilation.flags, "-disable-llvm-passes"),
        inputs=("-x", "ir", str(path)),
    )
