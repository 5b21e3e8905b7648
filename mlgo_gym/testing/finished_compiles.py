"""The objects of finished compiles, for tests that compare them byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mlgo_gym.compiler.connection import CompileResult
from mlgo_gym.episode.baseline import watchers


class FinishedCompile(NamedTuple):
    """A finished compile of an episode.

    Attributes:
        object_bytes: The object file.
        optimization_record: The optimisation record; empty for tasks without one.
        plain: Whether plain clang decided, for the baseline, instead of an agent.
    """

    object_bytes: bytes
    optimization_record: bytes
    plain: bool


@contextmanager
def finished_compiles() -> Iterator[list[FinishedCompile]]:
    """Collect the compiles of episodes that finish in this process, in order.

    Only whole compiles count: an episode with `scope="function"` and an allocation metric ends with its function. A
    baseline is compiled once and then read from the cache.

    Returns:
        A list that grows with each compile.
    """
    compiles: list[FinishedCompile] = []

    def watch(compiled: CompileResult, plain: bool) -> None:
        compiles.append(FinishedCompile(compiled.object_bytes, compiled.optimization_record, plain))

    watchers.append(watch)
    try:
        yield compiles
    finally:
        watchers.remove(watch)
