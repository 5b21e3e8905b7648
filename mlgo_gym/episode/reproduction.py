"""Whether what a reproducer keeps happens again, and its module made as small as it still does."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from typing_extensions import Self

from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.episode.reproducer import CRASH, MODULE, Reproducer, compile_again, read_reproducer
from mlgo_gym.errors import CompilerError, MlgoError, UntrustedError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.bounded_run import run_bounded
from mlgo_gym.session.limits import Limits
from mlgo_gym.storage.leftovers import temporary_folder

REDUCED = "reduced.bc"
# Asks this process, which has everything loaded: another Python for each of thousands of modules would take a second.
_ASK = """#!/bin/sh
echo "$1" > {asked}
read -r status < {answered}
exit "$status"
"""
# Should this process be killed before what it has started is sure to end with it, nothing of that begins. What
# llvm-reduce writes for the test is with the temporary files, and stays when it is killed.
_BEGIN = 'TMPDIR=$PWD; export TMPDIR; read -r go && exec "$@" < /dev/null'
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

    However this process ends, llvm-reduce and all compilers end with it. What was killed leaves a temporary folder,
    which goes with the next.

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

    with temporary_folder() as scratch, _Questions(scratch, still_wrong) as questions:
        words = [f"--test={questions.program}", "-o", str(output), "--write-tmp-files-as-bitcode", str(begin)]
        result = run_bounded(
            ["/bin/sh", "-c", _BEGIN, "sh", reducer, *words],
            writable=None,
            folder=scratch,
            timeout=None,
            limits=Limits(processor=None),
            name=reducer,
            first_line="go\n",
            attended={questions.asked: questions.answer},
        )
    if result.returncode != 0 or not output.exists():
        raise MlgoError(f"{reducer} failed with exit status {result.returncode}: {result.stderr[-2000:]}")
    return output


class _Questions:
    """A program that exits with 0 where a question about the file that it is given is answered with yes.

    Attributes:
        program: its path.
        asked: a descriptor that can be read while it waits for an answer.
    """

    def __init__(self, scratch: Path, question: Callable[[Path], bool]) -> None:
        self._scratch = scratch
        self._question = question
        self.program = scratch / "test"
        asked, answered = scratch / "asked", scratch / "answered"
        for pipe in (asked, answered):
            os.mkfifo(pipe)
        self.program.write_text(_ASK.format(asked=shlex.quote(str(asked)), answered=shlex.quote(str(answered))))
        self.program.chmod(0o755)
        # Open for both directions, a pipe never waits for its other end, which may have been killed.
        self._asks, self._tells = (pipe.open("r+b", 0) for pipe in (asked, answered))
        self.asked = self._asks.fileno()

    def answer(self) -> None:
        """Answer the question that is asked."""
        name = os.fsdecode(self._asks.readline().rstrip(b"\n"))
        self._tells.write(b"0\n" if self._question(self._scratch / name) else b"1\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._asks.close()
        self._tells.close()


def _fails(reproducer: Reproducer, folder: Path, made: bytes) -> bool:
    with temporary_folder() as scratch:
        file = scratch / "object.o"
        file.write_bytes(made)
        words = [word.replace("{object}", str(file)) for word in reproducer.test]
        return run_bounded(words, writable=None, folder=folder, timeout=120, name="the test").returncode != 0
