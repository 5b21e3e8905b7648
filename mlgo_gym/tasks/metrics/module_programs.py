"""The programs that a module belongs to, and the instructions that they execute with another object of the module."""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.function_sizes import FunctionSizes, function_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.cache import JsonCache, key_of
from mlgo_gym.storage.temporary_folders import temporary_folder
from mlgo_gym.tasks.metrics.counters import Counter
from mlgo_gym.tasks.metrics.program_run import link_program, measure_program, modules_of, program_counter
from mlgo_gym.tasks.metrics.programs_file import Program, read_programs

_memory = JsonCache("counts")


@dataclass(frozen=True, slots=True)
class ExecutedInstructions:
    """The instructions that programs executed.

    Attributes:
        total: Executed instructions of all runs.
        functions: Instructions by symbol; empty with the hardware counter.
    """

    total: int
    functions: Mapping[str, int]


class ModulePrograms:
    """The metric `instructions`: counts the programs of a corpus with another object of one module.

    Plain clang compiles the other modules. A count is kept on disk, by the linked file and its runs. Nothing runs
    before the first count.

    Args:
        corpus: The corpus.
        toolchain: The compiler, which links.
        plain: Returns the object of a module by plain clang.
        trust: Whether to run programs of a folder outside of the cache.

    Attributes:
        counter: Counter of the instructions of whole programs.

    Raises:
        CorpusError: The corpus describes no programs, or they are not trusted.
        MlgoError: Nothing counts their instructions.
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
        self._objects: dict[str, bytes] = {}

    @cached_property
    def modules(self) -> frozenset[str]:
        """Names of the modules that belong to a program."""
        return frozenset(self._programs)

    def count(
        self, module: str, object_bytes: bytes | None = None, *, by_function: bool = False
    ) -> ExecutedInstructions:
        """Run the programs of a module and return their instructions.

        Args:
            module: Name of the module.
            object_bytes: Its object; None is that of plain clang.
            by_function: Whether to count the instructions of each function, which takes valgrind.

        Raises:
            CompilerError: of kind `program`: a program cannot be linked, fails, or prints another output than expected.
            MlgoError: The module belongs to no program, or valgrind is missing.
        """
        if module not in self._programs:
            raise MlgoError(
                f"expected a module of a program in {self._folder}, got {module!r}; choose another metric than "
                "'instructions' for it"
            )
        total, functions = 0, collections.Counter[str]()
        for program, modules in self._programs[module]:
            counter = program_counter(program, self._folder, by_function=by_function)
            try:
                found = self._count(program, modules, module, object_bytes, counter)
            except CompilerError:
                raise
            except MlgoError as error:
                raise CompilerError(str(error), kind="program") from error
            total += found.total
            functions.update(found.functions)
        return ExecutedInstructions(total, dict(functions))

    def cost(self, module: str, object_bytes: bytes | None = None) -> float:
        """Return the total of `count()`."""
        return float(self.count(module, object_bytes).total)

    def functions(self, module: str, object_bytes: bytes | None = None) -> FunctionSizes:
        """Return the instructions of each function, also of those outside the module, such as `strlen`."""
        sizes = function_sizes(self._plain_object(module) if object_bytes is None else object_bytes)
        counts: collections.Counter[str] = collections.Counter()
        executed = self.count(module, object_bytes, by_function=True)
        for symbol, count in executed.functions.items():
            counts[sizes.name(symbol) or symbol] += count
        return FunctionSizes(counts, sizes.aliases, 0, executed.total)

    def _count(
        self, program: Program, modules: tuple[str, ...], module: str, object_bytes: bytes | None, counter: Counter
    ) -> ExecutedInstructions:
        with temporary_folder() as folder:
            objects: dict[str, Path] = {}
            for number, name in enumerate(modules):
                objects[name] = folder / f"{number}.o"
                given = object_bytes if name == module else None
                objects[name].write_bytes(self._plain_object(name) if given is None else given)
            executable = folder / "program"
            link_program(program, self._folder, objects, executable, self._toolchain)
            linked = hashlib.sha256(executable.read_bytes()).hexdigest()
            files = [
                hashlib.sha256((self._folder / file).read_bytes()).hexdigest()
                for run in program.runs
                for file in run.files
            ]
            key = key_of("count", linked, [asdict(run) for run in program.runs], files, counter)
            record = _memory.get(key)
            if record is None:
                found = measure_program(program, self._folder, objects, executable, counter)
                record = {"total": found.instructions, "functions": dict(found.functions)}
                _memory.put(key, record)
        return ExecutedInstructions(record["total"], record["functions"])

    def _plain_object(self, name: str) -> bytes:
        if name not in self._objects:
            self._objects[name] = self._plain(name)
        return self._objects[name]
