"""Whether what a reproducer keeps happens again, and its module made as small as it still does."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread

from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.episode.reproducer import CRASH, MODULE, Reproducer, compile_again, read_reproducer
from mlgo_gym.errors import CompilerError, MlgoError, UntrustedError
from mlgo_gym.llvm.toolchain import Toolchain

REDUCED = "reduced.bc"
# Asks this process, which has everything loaded: another Python for each of thousands of modules would take a second.
_ASK = """#!/bin/sh
echo "$1" > {asked}
read -r status < {answered}
exit "$status"
"""
# The newest first: one that is older than the compiler does not read its bitcode.
_REDUCERS = ("llvm-reduce-22", "llvm-reduce", "llvm-reduce-21", "llvm-reduce-20", "llvm-reduce-19")


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What came of compiling a reproducer's module again.

    Attributes:
        again: whether it went wrong as it did before.
        what: what happened, in words.
    """

    again: bool
    what: str


def reproduce(
    folder: Path, toolchain: Toolchain, *, bitcode: Path | None = None, timeout: float = 60.0, trust: bool = False
) -> Reproduction:
    """Compile a reproducer's module again with its decisions.

    Args:
        folder: the reproducer.
        toolchain: the compiler.
        bitcode: another module in the place of its own, such as a smaller one.
        timeout: for how long clang may give no sign of life, in seconds.
        trust: run its flags and its test whatever they are.

    Raises:
        MlgoError: it is no reproducer.
        UntrustedError: it has flags that may do more than shape code, or a test, and is not trusted.
    """
    reproducer = read_reproducer(folder)
    if reproducer.kind != CRASH and not trust:
        raise UntrustedError(
            f"{folder} tells a wrong object by a command, {' '.join(reproducer.test)}: read it, and if you know who "
            "made this, say so: --trust"
        )
    module = Module(reproducer.module, bitcode or folder / MODULE, ("-cc1", *reproducer.flags[1:]), trusted=trust)
    compilation = plan(module, toolchain)
    try:
        made, others = compile_again(reproducer, compilation, timeout, exact=bitcode is None)
    except CompilerError as error:
        return Reproduction(reproducer.kind == CRASH and error.exit_status == reproducer.exit_status, error.message)
    if reproducer.kind == CRASH:
        return Reproduction(False, f"clang {toolchain.version_text} made an object of {len(made)} bytes")
    plain, _ = compile_again(replace(reproducer, advisors=(), answers=()), compilation, timeout)
    wrong, right = _fails(reproducer, folder, made), not _fails(reproducer, folder, plain)
    told = {True: "wrong", False: "right"}
    return Reproduction(
        wrong and right,
        f"by the decisions (of which {others} had to be others) the object is {told[wrong]}, by clang alone "
        f"{told[not right]}",
    )


def reduce_module(
    folder: Path, toolchain: Toolchain, *, bitcode: Path | None = None, timeout: float = 60.0, trust: bool = False
) -> Path:
    """Make the module of a reproducer as small as it still goes wrong, and return the smaller one.

    Args:
        folder: the reproducer; `reduced.bc` is written into it, each time that it has become smaller.
        toolchain: the compiler; llvm-reduce has to read what it writes.
        bitcode: the module to begin with in the place of its own, such as one that was made smaller already.
        timeout: for how long clang may give no sign of life, in seconds.
        trust: as for `reproduce()`.

    Raises:
        MlgoError: llvm-reduce is not installed, or fails; or the module does not go wrong as it is.
    """
    reducer = next((path for name in _REDUCERS if (path := shutil.which(name))), None)
    if reducer is None:
        raise MlgoError("llvm-reduce makes modules smaller, and is not installed; it is part of LLVM (Debian: llvm)")
    first = reproduce(folder, toolchain, bitcode=bitcode, timeout=timeout, trust=trust)
    if not first.again:
        raise MlgoError(f"{folder} was to go wrong before it is made smaller, and {first.what}")
    folder = folder.absolute()
    begin, output = (bitcode or folder / MODULE).absolute(), folder / REDUCED

    def still_wrong(bitcode: Path) -> bool:
        try:
            return reproduce(folder, toolchain, bitcode=bitcode, timeout=timeout, trust=trust).again
        except MlgoError:
            return False

    with tempfile.TemporaryDirectory(prefix="mlgo-gym-reduce-") as scratch, _asked(Path(scratch), still_wrong) as test:
        command = [reducer, f"--test={test}", "-o", str(output), "--write-tmp-files-as-bitcode", str(begin)]
        result = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    if result.returncode != 0 or not output.exists():
        raise MlgoError(f"{reducer} failed with exit status {result.returncode}: {result.stderr[-2000:]}")
    return output


@contextmanager
def _asked(scratch: Path, question: Callable[[Path], bool]) -> Iterator[Path]:
    """Have a program that exits with 0 where a question about the file that it is given is answered with yes."""
    asked, answered, program = scratch / "asked", scratch / "answered", scratch / "test"
    for pipe in (asked, answered):
        os.mkfifo(pipe)
    program.write_text(_ASK.format(asked=asked, answered=answered))
    program.chmod(0o755)
    raised: list[Exception] = []

    # Open for both directions, a pipe never waits for its other end, which may have been killed.
    with asked.open("r+b", 0) as asks, answered.open("r+b", 0) as tells:

        def answer() -> None:
            while name := os.fsdecode(asks.readline().rstrip(b"\n")):
                wrong = False
                try:
                    wrong = not raised and question(scratch / name)
                except Exception as error:  # noqa: BLE001 - raised where the program's user waits
                    raised.append(error)
                tells.write(b"0\n" if wrong else b"1\n")

        answering = Thread(target=answer, daemon=True)
        answering.start()
        try:
            yield program
        finally:
            asks.write(b"\n")
            answering.join()
    if raised:
        raise raised[0]


def _fails(reproducer: Reproducer, folder: Path, made: bytes) -> bool:
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        file.write(made)
        file.flush()
        words = [word.replace("{object}", file.name) for word in reproducer.test]
        return subprocess.run(words, cwd=folder, capture_output=True, check=False, timeout=120).returncode != 0
