"""What a corpus holds: sizes, languages, licences, and the optimisation level that its functions really show."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from operator import itemgetter
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.corpus import Corpus, Count
from mlgo_gym.corpus.dataset import incomplete
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.bitcode import BitcodeFacts, read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.bounded_run import run_bounded

DECADES = (0, 1, 10, 100, 1000, 10_000)
"""Where the bins of a histogram of decisions begin."""


@dataclass(slots=True)
class Information:
    """What is in a corpus.

    Attributes:
        modules: the number of modules.
        bitcode_bytes: the size of all bitcode.
        functions: functions with a body, and how many of them have `minsize`, `optsize` and `optnone`.
        lines: source lines of the modules of which they are known, and how many modules these are.
        languages: modules per source language.
        licences: modules per licence, `unknown` included.
        producers: modules per LLVM that wrote the bitcode.
        targets: modules per target triple.
        levels: modules per level that the attributes of their functions show, as `BitcodeFacts.level` names it.
        unreadable: per producer that the compiler at hand cannot read, what that said.
        decisions: per task, the number of decisions of each module that could be counted.
        problems: one line per module that could not be looked at.
        lacks: what a dataset was to hold besides, and does not.
    """

    modules: int = 0
    bitcode_bytes: int = 0
    functions: Counter[str] = field(default_factory=Counter)
    lines: tuple[int, int] = (0, 0)
    languages: Counter[str] = field(default_factory=Counter)
    licences: Counter[str] = field(default_factory=Counter)
    producers: Counter[str] = field(default_factory=Counter)
    targets: Counter[str] = field(default_factory=Counter)
    levels: Counter[str] = field(default_factory=Counter)
    unreadable: dict[str, str] = field(default_factory=dict)
    decisions: dict[str, list[int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the same as JSON-able values, under the same names."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in values.items()}


def describe(
    corpus: Corpus,
    toolchain: Toolchain,
    *,
    count: Count | None = None,
    tasks: Sequence[str] = (),
    jobs: int | None = None,
    progress: Callable[[], object] = lambda: None,
) -> Information:
    """Return what is in a corpus; a module that cannot be read is a problem in the answer, not an error.

    Args:
        corpus: the corpus.
        toolchain: the clang of which to say whether it reads the bitcode; it is tried on one module per producer.
        count: how many decisions a module has for a task; without it none are counted.
        tasks: the tasks to count for.
        jobs: how many modules to count in at a time; all processors if None.
        progress: called after each module.
    """
    information = Information(
        decisions={task: [] for task in tasks} if count else {},
        lacks=[] if corpus.path is None else incomplete(corpus.path),
    )
    smallest: dict[str, tuple[int, Module]] = {}

    def look(name: str) -> tuple[Module, BitcodeFacts, list[int]] | str:
        try:
            module = corpus.module(name)
            counts = [] if count is None else [count(module, task) for task in tasks]
            return module, read_bitcode(module.bitcode), counts
        except MlgoError as error:
            return str(error)
        finally:
            progress()

    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        for found in pool.map(look, corpus.names):
            if isinstance(found, str):
                information.problems.append(found)
                continue
            module, facts, counts = found
            size = module.bitcode.stat().st_size
            _add(information, module, facts, size)
            smallest[facts.producer] = min(
                smallest.get(facts.producer, (size, module)), (size, module), key=itemgetter(0)
            )
            for task, number in zip(tasks, counts, strict=False):
                information.decisions[task].append(number)
    for producer, (_, module) in smallest.items():
        problem = unreadable_because(module.bitcode, toolchain)
        if problem is not None:
            information.unreadable[producer] = problem
    return information


def unreadable_because(bitcode: Path, toolchain: Toolchain) -> str | None:
    """Return what a clang says of bitcode that it cannot read, or None when it can."""
    arguments = ["-cc1", "-emit-llvm-bc", "-disable-llvm-passes", "-w", "-x", "ir", str(bitcode), "-o", os.devnull]
    answer = run_bounded([*toolchain.command, *arguments], timeout=300)
    if answer.returncode == 0:
        return None
    words = answer.stderr.strip().splitlines()
    return next((line for line in words if "error" in line), words[0] if words else f"exit {answer.returncode}")


def histogram(counts: Sequence[int]) -> list[tuple[str, int]]:
    """Return the bins of numbers of decisions, a bin for each power of ten, each with its label."""
    bins = []
    for least, end in zip(DECADES, (*DECADES[1:], None), strict=True):
        label = f"{least}+" if end is None else str(least) if end == least + 1 else f"{least}-{end - 1}"
        bins.append((label, sum(least <= number and (end is None or number < end) for number in counts)))
    return bins


def _add(information: Information, module: Module, facts: BitcodeFacts, size: int) -> None:
    metadata = module.metadata
    information.modules += 1
    information.bitcode_bytes += size
    information.functions.update(
        functions=facts.functions, minsize=facts.minsize, optsize=facts.optsize, optnone=facts.optnone
    )
    lines = metadata.get("lines")
    if isinstance(lines, int):
        information.lines = (information.lines[0] + lines, information.lines[1] + 1)
    information.languages[str(metadata.get("language") or facts.language or "unknown")] += 1
    information.licences[str(metadata.get("licence") or "unknown")] += 1
    information.producers[facts.producer or "unknown"] += 1
    information.targets[facts.triple or "unknown"] += 1
    information.levels[facts.level] += 1
