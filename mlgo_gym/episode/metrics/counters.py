"""Counters of executed instructions: the hardware's where the kernel allows it, else valgrind's cachegrind.

Programs of another machine run in an emulator, which counts too: qemu's user mode runs ELF files, wasmtime WebAssembly.
"""

import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from mlgo_gym.cache import FileCache, errors_name_cache, key_of, sha256_of
from mlgo_gym.compiler.limits import Limits
from mlgo_gym.compiler.native_library import output_of
from mlgo_gym.compiler.process import run_bounded
from mlgo_gym.corpus.driver import Target, bundled_target
from mlgo_gym.errors import MlgoError
from mlgo_gym.extras import library
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.storage.temporary_folders import temporary_folder

Counter = Literal["hardware", "cachegrind", "qemu", "wasmtime"]
"""Counter of instructions. Counts of the first two differ a little; results name theirs."""

PROGRAM_TARGET = f"{platform.machine()}-linux-musl"
"""Target of programs: this machine, with the C library of the bundled compiler in the program."""

TIMEOUT = 120.0
"""Time limit of a run in seconds; under cachegrind `CACHEGRIND_FACTOR` times that."""

CACHEGRIND_FACTOR = 50
"""Largest slowdown by cachegrind (measured: 20 to 50)."""

_SOURCE = Path(__file__).with_name("counter.c")
_MEMORY = 4.0
EMULATION_FACTOR = 20
"""Largest slowdown by an emulator."""

_PLUGIN = Path(__file__).with_name("instruction_counter.c")
_ARCHITECTURES = {"thumbv7em": "arm", "thumbv6m": "arm"}
"""Architecture in the name of qemu, where the triple has another one."""


@dataclass(frozen=True, slots=True)
class Emulator:
    """A program that runs those of another machine and counts their instructions.

    `qemu` counts executed instructions of the machine, `wasmtime` its fuel: operators without those of blocks.
    """

    counter: Literal["qemu", "wasmtime"]
    program: str

    def command(self, words: Sequence[str], report: Path) -> list[str]:
        """Return the command that runs a program and writes its instructions to a file."""
        if self.counter == "wasmtime":
            return [self.program, "-m", "mlgo_gym.episode.metrics.webassembly", str(report), *words]
        return [self.program, "-plugin", f"{_plugin(self.program)},out={report}", *words]


@dataclass(frozen=True, slots=True)
class Count:
    """The cost of one run.

    Attributes:
        output: standard output.
        instructions: executed instructions in user mode; None where only time and memory were measured.
        seconds, memory: wall time without a counter that slows it down, and maximum resident memory in bytes.
        functions: instructions by symbol; empty except with cachegrind, since the others count the whole program.
    """

    output: bytes
    instructions: int | None
    seconds: float
    memory: int
    functions: Mapping[str, int] = field(default_factory=dict)


def find_counter(*, by_function: bool = False) -> Counter:
    """Return the counter of this machine, or the one that counts by function; `MlgoError` if there is none."""
    if not by_function and has_hardware_counter():
        return "hardware"
    if shutil.which("valgrind"):
        return "cachegrind"
    others = "valgrind, got none" if by_function else "a hardware counter (perf_event_open) or valgrind, got neither"
    raise MlgoError(f"expected {others}; install the package valgrind")


@lru_cache(maxsize=1)
def has_hardware_counter() -> bool:
    """Return whether the kernel counts the instructions of a program; False if the first try fails."""
    with temporary_folder() as folder:
        try:
            return run_program([shutil.which("true") or sys.executable], folder).instructions is not None
        except MlgoError:
            return False


def run_program(
    command: Sequence[str], folder: Path, *, timeout: float = TIMEOUT, emulator: Emulator | None = None
) -> Count:
    """Run a program in a folder, the only one where it may write; measure time, memory and, if possible, instructions.

    With an emulator, time and memory are those of the emulator. Raises `MlgoError` unless it exits with 0 in time.
    """
    report, emulated = folder / ".count", folder / ".emulated"
    words = list(command) if emulator is None else emulator.command(command, emulated)
    # Emulators reserve more addresses than they use.
    memory = _MEMORY if emulator is None else None
    output = _run([str(_launcher()), str(report), *words], folder, timeout, memory)
    status, instructions, nanoseconds, kibibytes = map(int, report.read_text().split())
    report.unlink()
    if emulated.exists():
        instructions = int(emulated.read_text())
        emulated.unlink()
    if status:
        code = os.waitstatus_to_exitcode(status)
        ending = f"exit status {code}" if code >= 0 else f"signal {-code}"
        raise MlgoError(f"expected exit status 0 of {Path(command[0]).name}, got {ending}; the program is wrong")
    return Count(output, instructions if instructions >= 0 else None, nanoseconds / 1e9, kibibytes << 10)


def count_program(command: Sequence[str], folder: Path, counter: Counter) -> Count:
    """Run a program and count its instructions; arguments and errors as for `run_program()`.

    With cachegrind the program runs twice, so that wall time and memory are its own.
    """
    plain = run_program(command, folder)
    if counter == "hardware":
        if plain.instructions is None:
            raise MlgoError("expected a hardware counter, got none; use the counter cachegrind")
        return plain
    profile = folder / ".cachegrind"
    options = ["--tool=cachegrind", "--cache-sim=no", "--vgdb=no", "--demangle=no", "--quiet"]
    # Valgrind writes temporary files, and may write in this folder alone.
    words = ["env", f"TMPDIR={folder}", "valgrind", *options, f"--cachegrind-out-file={profile}", *command]
    output = _run(words, folder, TIMEOUT * CACHEGRIND_FACTOR, _MEMORY)
    if output != plain.output:
        raise MlgoError(f"expected the same output of {Path(command[0]).name} twice, got two; remove what varies")
    functions = read_cachegrind(profile.read_text(errors="replace"))
    profile.unlink()
    return Count(output, sum(functions.values()), plain.seconds, plain.memory, functions)


def read_cachegrind(text: str) -> dict[str, int]:
    """Return the instructions by symbol of a file that cachegrind wrote (valgrind manual, section 5.2)."""
    counts: dict[str, int] = {}
    function = ""
    for line in text.splitlines():
        if line.startswith("fn="):
            function = line.removeprefix("fn=")
        elif line[:1].isdigit():
            counts[function] = counts.get(function, 0) + int(line.split()[1])
    return counts


def _run(command: Sequence[str], folder: Path, timeout: float, memory: float | None) -> bytes:
    name = Path(command[0]).name
    answer = run_bounded(
        command,
        writable=(folder,),
        folder=folder,
        timeout=timeout,
        limits=Limits(memory=memory, cpu=timeout),
        name=name,
        errors="surrogateescape",
    )
    if answer.returncode != 0:
        raise MlgoError(f"expected exit status 0 of {name}, got {answer.returncode}: {answer.stderr.strip()[-500:]}")
    return answer.stdout.encode(errors="surrogateescape")


@lru_cache(maxsize=1)
def _launcher() -> Path:
    freestanding = ["-static", "-nostdlib", "-ffreestanding"]
    return _built_program(_SOURCE, ["-target", PROGRAM_TARGET, "-O1", *freestanding])


def find_emulator(target: Target | None) -> Emulator | None:
    """Return the emulator of a target, None where this machine runs its programs; `MlgoError` without it."""
    if target is None or target.architecture == platform.machine():
        return None
    if target.is_webassembly:
        library("wasmtime", "Running WebAssembly programs", "run-time")
        return Emulator("wasmtime", sys.executable)
    name = f"qemu-{_ARCHITECTURES.get(target.architecture, target.architecture)}"
    program = shutil.which(name)
    if program is None:
        raise MlgoError(
            f"expected {name} on PATH for programs of {target.name}, got none; install the package qemu-user"
        )
    return Emulator("qemu", program)


@lru_cache(maxsize=8)
def _plugin(qemu: str) -> Path:
    """Return the plugin that counts instructions; compiled once for the interface of a version of qemu."""
    printed = run_bounded([qemu, "--version"], writable=None, timeout=60, name="qemu").stdout
    version = re.search(r"version (\d+)", printed)
    interface = 1 if version is not None and int(version[1]) < 9 else 2
    # qemu has the functions that the plugin calls.
    options = ["-shared", "-fPIC", "-O2", "-Wl,-z,undefs", f"-DPLUGIN_VERSION={interface}"]
    return _built_program(_PLUGIN, ["-target", bundled_target(), *options], ".so")


def _built_program(source: Path, options: Sequence[str], suffix: str = "") -> Path:
    """Return the executable that the bundled compiler makes of a source; the cache keeps it."""
    programs = FileCache("programs", suffix)
    key = key_of(sha256_of(source), options)
    if known := programs.get(key):
        return known
    with temporary_folder() as folder:
        built = folder / "built"
        output_of([*bundled_command("cc"), *options, str(source), "-o", str(built)])
        with errors_name_cache():
            return programs.put(key, built.read_bytes(), 0o777)
