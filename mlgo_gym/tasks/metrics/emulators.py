"""Programs of another machine: qemu's user mode runs ELF files, wasmtime WebAssembly, and both count instructions."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.corpus.driver import bundled_target
from mlgo_gym.corpus.targets import Target
from mlgo_gym.errors import MlgoError
from mlgo_gym.extras import library
from mlgo_gym.tasks.metrics.built_program import built_program

EMULATION_FACTOR = 20
"""Largest slowdown by an emulator."""

_PLUGIN = Path(__file__).with_name("instruction_counter.c")
_ARCHITECTURES = {"thumbv7em": "arm", "thumbv6m": "arm"}
"""Architecture in the name of qemu, where the triple has another one."""


@dataclass(frozen=True, slots=True)
class Emulator:
    """A program that runs those of another machine and counts their instructions.

    Attributes:
        counter: name of the counter: `qemu`, executed instructions of the machine; or `wasmtime`, its fuel: executed
            operators without those of blocks.
        program: path of the emulator.
    """

    counter: Literal["qemu", "wasmtime"]
    program: str

    def command(self, words: Sequence[str], report: Path) -> list[str]:
        """Return the command that runs a program and writes its instructions to a file."""
        if self.counter == "wasmtime":
            return [self.program, "-m", "mlgo_gym.tasks.metrics.webassembly", str(report), *words]
        return [self.program, "-plugin", f"{_plugin(self.program)},out={report}", *words]


def find_emulator(target: Target) -> Emulator | None:
    """Return the emulator of a target; None where this machine runs its programs itself.

    Raises:
        MlgoError: it is not installed.
    """
    if target.is_native:
        return None
    if target.is_webassembly:
        library("wasmtime", "Running WebAssembly programs", "run-time")
        return Emulator("wasmtime", sys.executable)
    architecture = target.triple.partition("-")[0]
    name = f"qemu-{_ARCHITECTURES.get(architecture, architecture)}"
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
    return built_program(_PLUGIN, f"qemu-{interface}", ["-target", bundled_target(), *options], ".so")
