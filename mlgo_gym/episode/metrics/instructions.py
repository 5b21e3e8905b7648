"""The metric `instructions`: executed instructions of the programs of a module, with another object of the module."""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from mlgo_gym.cache import JsonCache, key_of
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.episode.metrics.counters import Counter
from mlgo_gym.episode.metrics.programs import (
    Program,
    link_program,
    measure_program,
    modules_of,
    program_counter,
    read_programs,
)
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.sizes import FunctionSizes, function_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.temporary_folders import temporary_folder


class ModulePrograms:
    """The metric `instructions`, a `ProjectCost`: counts the programs of a corpus with another object of one module.

    A count is kept on disk, by the linked file and its runs. Nothing runs before the first count.

    Args:
        corpus: The corpus; `CorpusError` if it describes no programs, or they are not trusted.
        toolchain: The compiler, which links.
        plain: Returns the object of a module by plain clang.
        trust: Whether to run programs of a folder outside of the cache.
    """

    unit = 1
    counts_calls = True

    def __init__(
        self, corpus: Corpus, toolchain: Toolchain, plain: Callable[[str], bytes], *, trust: bool = False
    ) -> None:
        assert corpus.path is not None or not read_programs(corpus), "read_programs() needs a folder"
        self._folder = corpus.path or Path()
        self._toolchain = toolchain
        self._plain = plain
        self._programs: dict[str, list[tuple[Program, tuple[str, ...]]]] = {}
        programs = read_programs(corpus, trust=trust)
        self.counter = program_counter(programs[0], self._folder)
        for program in programs:
            modules = modules_of(program, self._folder)
            for module in modules:
                self._programs.setdefault(module, []).append((program, modules))

    @cached_property
    def modules(self) -> frozenset[str]:
        """Names of the modules that belong to a program."""
        return frozenset(self._programs)

    def cost(self, module: str, object_bytes: bytes | None = None) -> float:
        """Return the instructions of all runs; raise `CompilerError` of kind `program` if a program is wrong."""
        return float(self._count(module, object_bytes)[0])

    def functions(self, module: str, object_bytes: bytes | None = None) -> FunctionSizes:
        """Return the instructions of each function, also of those outside the module; `MlgoError` without valgrind."""
        sizes = function_sizes(self._plain(module) if object_bytes is None else object_bytes)
        total, by_symbol = self._count(module, object_bytes, by_function=True)
        counts: collections.Counter[str] = collections.Counter()
        for symbol, count in by_symbol.items():
            counts[sizes.name(symbol) or symbol] += count
        return FunctionSizes(counts, sizes.aliases, 0, total)

    def _count(
        self, module: str, object_bytes: bytes | None, *, by_function: bool = False
    ) -> tuple[int, collections.Counter[str]]:
        """Return the instructions of all runs, and by symbol; the latter are empty unless cachegrind counts."""
        if module not in self._programs:
            raise MlgoError(
                f"expected a module of a program in {self._folder}, got {module!r}; choose another metric than "
                "'instructions' for it"
            )
        total, functions = 0, collections.Counter[str]()
        for program, modules in self._programs[module]:
            counter = program_counter(program, self._folder, by_function=by_function)
            objects = {
                name: object_bytes if name == module and object_bytes is not None else self._plain(name)
                for name in modules
            }
            try:
                record = self._run(program, objects, counter)
            except CompilerError:
                raise
            except MlgoError as error:
                raise CompilerError(str(error), kind="program") from error
            total += record["total"]
            functions.update(record["functions"])
        return total, functions

    def _run(self, program: Program, objects: Mapping[str, bytes], counter: Counter) -> dict[str, Any]:
        with temporary_folder() as folder:
            files: dict[str, Path] = {}
            for number, (name, data) in enumerate(objects.items()):
                files[name] = folder / f"{number}.o"
                files[name].write_bytes(data)
            executable = folder / "program"
            link_program(program, self._folder, files, executable, self._toolchain)
            inputs = [executable, *(self._folder / file for run in program.runs for file in run.files)]
            linked, *others = (hashlib.sha256(path.read_bytes()).hexdigest() for path in inputs)

            def compute() -> dict[str, Any]:
                measured = measure_program(program, self._folder, files, executable, counter)
                return {"total": measured.instructions, "functions": dict(measured.functions)}

            key = key_of("count", linked, [asdict(run) for run in program.runs], others, counter)
            return JsonCache("counts").remembered(key, compute)
