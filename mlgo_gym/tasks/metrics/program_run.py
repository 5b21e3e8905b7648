"""Links a program from objects, runs it, checks its output, and measures its size and its cost."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter as Sums
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlgo_clang.object_size import WASM_MAGIC
from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.corpus.folder import read_command
from mlgo_gym.corpus.recording.links import read_links, relink
from mlgo_gym.corpus.targets import Target, target_of_triple, triple_of
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.extras import library
from mlgo_gym.llvm.function_sizes import function_sizes
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from mlgo_gym.storage.temporary_folders import temporary_folder
from mlgo_gym.tasks.metrics.counters import PROGRAM_TARGET, TIMEOUT, Counter, count_program, find_counter, run_program
from mlgo_gym.tasks.metrics.emulators import EMULATION_FACTOR, find_emulator
from mlgo_gym.tasks.metrics.programs_file import Program, Run


@dataclass(frozen=True, slots=True)
class ProgramMeasurement:
    """The size and the cost of one program.

    Attributes:
        size: bytes of the functions of its modules in the linked file; the C library does not count.
        instructions: executed instructions of all runs.
        seconds: wall time of all runs.
        memory: largest resident memory of a run in bytes.
        functions: instructions by symbol; empty with the hardware counter.
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
    """Return the counter of a program: that of this machine, or that of the emulator of its target.

    Raises:
        MlgoError: nothing counts its instructions, or those of each function.
    """
    target = program_target(program, corpus)
    emulator = None if target is None else find_emulator(target)
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
    """Link a program of the corpus in a folder from an object file by module.

    The bundled compiler links it with its own C library, or as the recorded link did.

    Raises:
        CorpusError: the link fails, or the corpus has no such link.
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

    Raises:
        MlgoError: a run fails, takes too long, or prints another output than expected.
    """
    instructions, seconds, memory = 0, 0.0, 0
    functions: Sums[str] = Sums()
    target = program_target(program, corpus)
    emulator = None if target is None else find_emulator(target)
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
    """Return the bytes of the functions in an executable that its objects define.

    Raises `MissingExtraError` for a WebAssembly file of C++ if pydemumble is not installed.
    """
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
