"""Runnable programs of a corpus: `programs.toml`, links from objects, checked runs, and the metric `instructions`."""

import hashlib
import json
import re
import shutil
import sys
import warnings
from collections import Counter as Sums
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from mlgo_clang.files import read_untrusted
from mlgo_clang.object_size import WASM_MAGIC
from mlgo_gym.cache import JsonCache, cache_directory, key_of, sha256_of
from mlgo_gym.compiler.process import run_bounded
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.datasets.dataset import PROGRAMS_FILE, REPORT_FILE
from mlgo_gym.corpus.driver import Target, target_of_triple, triple_of
from mlgo_gym.corpus.folder import is_outside, read_command
from mlgo_gym.corpus.recording.links import read_links, relink
from mlgo_gym.episode.metrics.counters import (
    EMULATION_FACTOR,
    PROGRAM_TARGET,
    TIMEOUT,
    Counter,
    count_program,
    find_counter,
    find_emulator,
    run_program,
)
from mlgo_gym.errors import CompilerError, CorpusError, CorpusWarning, MlgoError
from mlgo_gym.extras import library
from mlgo_gym.llvm.sizes import FunctionSizes, function_sizes
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from mlgo_gym.storage.json_files import check_values
from mlgo_gym.storage.temporary_folders import temporary_folder

_DIGEST = re.compile(r"[0-9a-f]{64}")
_LANGUAGES = ("c", "c++")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program: SHA-256 of its output, its arguments, and files of the corpus for its working folder."""

    sha256: str
    arguments: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """A runnable program of a corpus.

    Attributes:
        modules: names of the modules that are linked into it, in the order of the corpus.
        link: output of a recorded link step instead of `modules`, or None.
        language: `c` or `c++`, the standard library that `modules` are linked with.
        driver, options: C source in the corpus folder with its `main()`, compiled without a policy, and its options.
        held_out: whether no bundled label is of its project.
    """

    name: str
    runs: tuple[Run, ...]
    modules: tuple[str, ...] = ()
    link: str | None = None
    language: str = "c"
    driver: str | None = None
    options: tuple[str, ...] = ()
    held_out: bool = False


def read_programs(corpus: Corpus, *, trust: bool = False) -> tuple[Program, ...]:
    """Return the programs of a corpus, sorted by name; a warning names those with a source that does not compile.

    Args:
        corpus: a corpus that was opened from a folder with `programs.toml`, or a part of one; programs keep all their
            modules.
        trust: whether to accept programs of a folder outside of the cache; they run on this machine.

    Raises:
        CorpusError: the corpus describes no programs, the file is malformed, or the folder is not trusted.
        MissingExtraError: on Python 3.10, tomli is not installed.
    """
    path = None if corpus.path is None else corpus.path / PROGRAMS_FILE
    if path is None or not path.is_file():
        raise CorpusError(
            f"expected a corpus with {PROGRAMS_FILE}, got {corpus.name!r}; use builtin or programs, or describe the "
            "programs of your own build"
        )
    if not trust and not path.resolve().is_relative_to(cache_directory().resolve()):
        raise CorpusError(
            f"expected programs of a trusted corpus, got {path}; if you know its author, pass --trust-flags, "
            "trust_flags=True"
        )
    toml = library("tomllib" if sys.version_info >= (3, 11) else "tomli", "Reading programs.toml", "run-time")
    try:
        entries = toml.loads(read_untrusted(path).decode())["programs"]
        failed = _failed_sources(path.with_name(REPORT_FILE))
        lacking = [name for name, entry in entries.items() if _matches(entry.get("modules", ()), failed)]
        if lacking:
            warnings.warn(
                f"{corpus.name}: expected all sources of {len(entries)} programs to compile, got failures in "
                f"{', '.join(lacking)}; these are excluded",
                CorpusWarning,
                stacklevel=2,
            )
        if len(lacking) == len(entries):
            raise ValueError("no program")
        return tuple(_program(name, entry, corpus) for name, entry in sorted(entries.items()) if name not in lacking)
    except (toml.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorpusError(
            f"{path}: expected [programs.NAME] tables with runs: {type(error).__name__}: {error}; correct it"
        ) from error


def _failed_sources(report: Path) -> list[str]:
    """Return the sources of a dataset that do not compile, for instance for another target; none without a report."""
    if not report.is_file():
        return []
    return [failure["source"] for failure in json.loads(read_untrusted(report))["failures"]]


def _matches(patterns: Sequence[str], sources: Sequence[str]) -> bool:
    return any(fnmatchcase(source, pattern) for source in sources for pattern in patterns)


def _program(name: str, entry: Mapping[str, Any], corpus: Corpus) -> Program:
    values = _frozen(entry)
    runs = tuple(Run(**_frozen(run)) for run in values.pop("runs"))
    patterns = values.pop("modules", ())
    modules = tuple(corpus.whole().filter(names=patterns).names) if patterns else ()
    program = Program(name, runs, modules, **values)
    for record in (program, *runs):
        check_values(record)
    if not runs or not all(_DIGEST.fullmatch(run.sha256) for run in runs):
        raise ValueError(f"program {name}: expected runs, each with a sha256")
    if bool(modules) == bool(program.link):
        raise ValueError(f"program {name}: expected modules of the corpus or a link, got {patterns or program.link!r}")
    if program.language not in _LANGUAGES:
        raise ValueError(f"program {name}: expected a language of {', '.join(_LANGUAGES)}, got {program.language!r}")
    for file in (program.driver, *(file for run in runs for file in run.files)):
        if file is not None and is_outside(file):
            raise ValueError(f"program {name}: {file!r} leads out of the corpus folder")
    return program


def _frozen(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}


@dataclass(frozen=True, slots=True)
class ProgramMeasurement:
    """The size and the cost of one program.

    `size` counts bytes of the functions of its modules in the linked file, without the C library. Instructions and wall
    time are sums over the runs, `memory` is the maximum. `functions` is empty with the hardware counter.
    """

    size: int
    instructions: int
    seconds: float
    memory: int
    functions: Mapping[str, int] = field(default_factory=dict)


def modules_of(program: Program, corpus: Path) -> tuple[str, ...]:
    """Return the names of the modules of a program, also of one that names a recorded link."""
    if program.link is None:
        return program.modules
    for link in read_links(corpus):
        if link.output == program.link:
            return link.modules
    raise CorpusError(f"program {program.name}: expected the output of a recorded link, got {program.link!r}")


def program_target(program: Program, corpus: Path) -> Target | None:
    """Return the target of a program, by the flags of its first module; None for another one than `TARGETS`."""
    flags = read_command(corpus / f"{modules_of(program, corpus)[0]}.cmd")
    return target_of_triple(triple_of(flags))


def program_counter(program: Program, corpus: Path, *, by_function: bool = False) -> Counter:
    """Return the counter of a program, of this machine or of its emulator; `MlgoError` if nothing counts it."""
    emulator = find_emulator(program_target(program, corpus))
    if emulator is None:
        return find_counter(by_function=by_function)
    if by_function:
        raise MlgoError(
            f"expected programs of this machine to count the instructions of functions, got {program.name} in "
            f"{emulator.counter}; omit credit"
        )
    return emulator.counter


def link_program(
    program: Program, corpus: Path, objects: Mapping[str, Path], output: Path, toolchain: Toolchain
) -> None:
    """Link a program of the corpus in a folder from an object file by module; raise `CorpusError` if that fails.

    The bundled compiler links it with its own C library, or as the recorded link did.
    """
    if program.link is not None:
        libraries: dict[str, Path] = {}
        for number, link in enumerate(read_links(corpus)):
            if link.output == program.link:
                relink(link, corpus, objects, output, toolchain, libraries=libraries, trust_flags=True)
                return
            if set(link.modules) <= set(objects):
                libraries[link.output] = output.with_name(f"{output.name}-{number}")
                relink(link, corpus, objects, libraries[link.output], toolchain, libraries=libraries, trust_flags=True)
        raise CorpusError(f"program {program.name}: expected the output of a recorded link, got {program.link!r}")
    linker = bundled_command("c++" if program.language == "c++" else "cc")
    chosen = program_target(program, corpus)
    target = ["-target", *([PROGRAM_TARGET] if chosen is None else chosen.zig), "-fno-sanitize=undefined"]
    files = [str(objects[name]) for name in program.modules]
    if program.driver is not None:
        driver = output.with_name(f"{output.name}-driver.o")
        source = str(corpus / program.driver)
        _build([*bundled_command("cc"), *target, "-O1", *program.options, "-c", source, "-o", str(driver)], program)
        files.append(str(driver))
    _build([*linker, *target, "-static", *files, "-o", str(output)], program)


def _build(command: Sequence[str], program: Program) -> None:
    answer = run_bounded(command, writable=None, name="the bundled compiler")
    if answer.returncode != 0:
        raise CorpusError(f"program {program.name} cannot be linked: {answer.stderr.strip()[-2000:]}")


def measure_program(
    program: Program, corpus: Path, objects: Mapping[str, Path], executable: Path, counter: Counter
) -> ProgramMeasurement:
    """Run a linked program, in an emulator if need be, and measure it; every run has a working folder of its own.

    Raises `MlgoError` if a run fails, takes too long, or prints another output than expected.
    """
    instructions, seconds, memory = 0, 0.0, 0
    functions: Sums[str] = Sums()
    emulator = find_emulator(program_target(program, corpus))
    for run in program.runs:
        with temporary_folder() as folder:
            for file in run.files:
                shutil.copyfile(corpus / file, folder / Path(file).name)
            command = [str(executable.absolute()), *run.arguments]
            if emulator is None:
                count = count_program(command, folder, counter)
            else:
                count = run_program(command, folder, timeout=TIMEOUT * EMULATION_FACTOR, emulator=emulator)
        check_output(program, run, count.output)
        instructions += count.instructions or 0
        seconds += count.seconds
        memory = max(memory, count.memory)
        functions.update(count.functions)
    return ProgramMeasurement(linked_size(objects, executable), instructions, seconds, memory, dict(functions))


def check_output(program: Program, run: Run, output: bytes) -> None:
    """Raise `MlgoError` if a run printed another output than expected."""
    found = hashlib.sha256(output).hexdigest()
    if found != run.sha256:
        raise MlgoError(
            f"program {program.name}: expected output with the SHA-256 {run.sha256[:16]}…, got {found[:16]}…, which "
            f"starts with {output[:80]!r}; the compiled program is wrong"
        )


def linked_size(objects: Mapping[str, Path], executable: Path) -> int:
    """Return the bytes of the functions in an executable that its objects define."""
    data = executable.read_bytes()
    linked = function_sizes(data)
    names = {
        name
        for path in objects.values()
        for sizes in [function_sizes(path.read_bytes())]
        for name in (*sizes.functions, *sizes.aliases)
    }
    if data.startswith(WASM_MAGIC):
        names = set(map(_name_in_wasm, names))
    return sum(size for name, size in linked.functions.items() if name in names)


def _name_in_wasm(symbol: str) -> str:
    """Return the name that wasm-ld writes for a symbol: demangled."""
    if not symbol.startswith("_Z"):
        return symbol
    name: str = library("pydemumble", "linked sizes of C++ in WebAssembly", "explain").demangle(symbol)
    return name or symbol


class ModulePrograms:
    """The metric `instructions`, a `ProjectCost`: counts the programs of a corpus with another object of one module.

    A count is kept on disk, by the linked file and its runs. Nothing runs before the first count. `plain` returns the
    object of a module by plain clang. Errors are those of `read_programs()`, whose argument `trust` is.
    """

    counts_calls = True

    def __init__(self, corpus: Corpus, toolchain: Toolchain, plain: Callable[[str], bytes], *, trust: bool) -> None:
        self._toolchain = toolchain
        self._plain = plain
        self._programs: dict[str, list[tuple[Program, tuple[str, ...]]]] = {}
        self._corpus, self._described = corpus.whole(), read_programs(corpus, trust=trust)
        assert corpus.path is not None, "read_programs() needs it"
        self._folder = corpus.path
        self.counter = program_counter(self._described[0], self._folder)
        for program in self._described:
            modules = modules_of(program, self._folder)
            for module in modules:
                self._programs.setdefault(module, []).append((program, modules))
        self.modules = frozenset(self._programs)

    @cached_property
    def identity(self) -> str:
        """Digest of the programs with their files, and of all their modules."""
        links = read_links(self._folder)
        names = {file for program in self._described for run in program.runs for file in (*run.files, program.driver)}
        names |= {part.file for link in links for part in link.parts}
        files = sorted((name, sha256_of(self._folder / name)) for name in names if name is not None)
        modules = [(module.contents(), module.flags) for module in map(self._corpus.module, sorted(self._programs))]
        return key_of([asdict(entry) for entry in self._described], [asdict(link) for link in links], files, modules)

    def cost(self, module: str, object_bytes: bytes | None = None) -> float:
        """Return the instructions of all runs; raise `CompilerError` of kind `program` if a program is wrong."""
        return float(self._count(module, object_bytes)[0])

    def functions(self, module: str, object_bytes: bytes | None = None) -> FunctionSizes:
        """Return the instructions of each function, also of those outside the module; `MlgoError` without valgrind."""
        sizes = function_sizes(self._plain(module) if object_bytes is None else object_bytes)
        total, by_symbol = self._count(module, object_bytes, by_function=True)
        counts: Sums[str] = Sums()
        for symbol, count in by_symbol.items():
            counts[sizes.name(symbol) or symbol] += count
        return FunctionSizes(counts, sizes.aliases, 0, total)

    def _count(self, module: str, object_bytes: bytes | None, *, by_function: bool = False) -> tuple[int, Sums[str]]:
        """Return the instructions of all runs, and by symbol; the latter are empty unless cachegrind counts."""
        if module not in self._programs:
            raise MlgoError(
                f"expected a module of a program in {self._folder}, got {module!r}; choose another metric than "
                "'instructions' for it"
            )
        total, functions = 0, Sums[str]()
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
