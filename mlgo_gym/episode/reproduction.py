"""Repeat the failure of a reproducer, and reduce its module."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.compiler.limits import Limits
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.episode.reproducer import CRASH, MODULE, Reproducer, compile_reproducer, read_reproducer
from mlgo_gym.errors import CompilerError, MlgoError, UntrustedError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.temporary_folders import temporary_folder

REDUCED = "reduced.bc"
# The test asks this process: a new Python for each of thousands of modules would take a second.
_ASK = """#!/bin/sh
echo "$1" > {asked}
read -r status < {answered}
exit "$status"
"""
# llvm-reduce starts only after a line from this process, so it ends with this process even if that is killed early.
# Its files for the test lie among the temporary files.
_BEGIN = 'TMPDIR=$PWD; export TMPDIR; read -r go && exec "$@" < /dev/null'
# The newest first: an older llvm-reduce does not read the compiler's bitcode.
_REDUCERS = ("llvm-reduce-22", "llvm-reduce", "llvm-reduce-21", "llvm-reduce-20", "llvm-reduce-19")


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Whether the failure of a reproducer occurred as recorded, and the result in words."""

    reproduced: bool
    description: str


def reproduce(
    folder: Path, toolchain: Toolchain, *, bitcode: Path | None = None, timeout: float = 60.0, trust_flags: bool = False
) -> Reproduction:
    """Compile the module of a reproducer with its answers, and compare the result with the recorded failure.

    `bitcode` replaces the recorded module, and clang may be silent for `timeout` seconds. With `trust_flags` the
    recorded flags and the test command run without a check.

    Raises:
        MlgoError: the folder has no reproducer.
        UntrustedError: the flags may do more than shape code, or there is a test command, and it is not trusted.
    """
    reproducer = read_reproducer(folder)
    if reproducer.kind != CRASH and not trust_flags:
        raise UntrustedError(
            f"expected trust to run the test command of {folder}, {' '.join(reproducer.test)!r}; read it, and pass "
            "--trust-flags if you know its author"
        )
    module = Module(reproducer.module, bitcode or folder / MODULE, ("-cc1", *reproducer.flags[1:]), trusted=trust_flags)
    compilation = plan(module, toolchain)
    try:
        compiled, replaced = compile_reproducer(reproducer, compilation, timeout, exact=bitcode is None)
    except CompilerError as error:
        return Reproduction(reproducer.kind == CRASH and error.exit_status == reproducer.exit_status, error.message)
    if reproducer.kind == CRASH:
        return Reproduction(False, f"clang {toolchain.version_text} made an object of {len(compiled)} bytes")
    plain, _ = compile_reproducer(replace(reproducer, advisors=(), answers=()), compilation, timeout)
    fails, plain_fails = _fails(reproducer, folder, compiled), _fails(reproducer, folder, plain)
    words = {True: "wrong", False: "correct"}
    return Reproduction(
        fails and not plain_fails,
        f"the object is {words[fails]} with the recorded answers ({replaced} replaced) and {words[plain_fails]} with "
        "plain clang",
    )


def reduce_module(
    folder: Path, toolchain: Toolchain, *, bitcode: Path | None = None, timeout: float = 60.0, trust_flags: bool = False
) -> Path:
    """Reduce the module of a reproducer with llvm-reduce while it still fails, and return the reduced bitcode.

    The arguments are those of `reproduce()`. Every smaller module is written to `reduced.bc` of the folder. llvm-reduce
    must read the compiler's bitcode. It and all compilers end with this process, however that ends.

    Raises:
        MlgoError: llvm-reduce is not installed or fails, or the module does not fail.
    """
    reducer = next((path for name in _REDUCERS if (path := shutil.which(name))), None)
    if reducer is None:
        raise MlgoError("expected llvm-reduce on PATH, got none; install LLVM's tools (Debian: llvm)")
    first = reproduce(folder, toolchain, bitcode=bitcode, timeout=timeout, trust_flags=trust_flags)
    if not first.reproduced:
        raise MlgoError(f"expected {folder} to fail before its reduction, got: {first.description}; use its compiler")
    folder = folder.absolute()
    start, output = (bitcode or folder / MODULE).absolute(), folder / REDUCED

    def still_fails(bitcode: Path) -> bool:
        try:
            return reproduce(folder, toolchain, bitcode=bitcode, timeout=timeout, trust_flags=trust_flags).reproduced
        except MlgoError:
            return False

    with temporary_folder() as scratch, _reduction_test(scratch, still_fails) as (program, asked, answer):
        words = [f"--test={program}", "-o", str(output), "--write-tmp-files-as-bitcode", str(start)]
        result = run_bounded(
            ["/bin/sh", "-c", _BEGIN, "sh", reducer, *words],
            writable=None,
            folder=scratch,
            timeout=None,
            limits=Limits(cpu=None),
            name=reducer,
            first_line="go\n",
            attended={asked: answer},
        )
    if result.returncode != 0 or not output.exists():
        raise MlgoError(f"{reducer} failed with exit status {result.returncode}: {result.stderr[-2000:]}")
    return output


@contextmanager
def _reduction_test(scratch: Path, question: Callable[[Path], bool]) -> Iterator[tuple[Path, int, Callable[[], None]]]:
    """Yield a program that asks this process about its argument, a file, and exits with 0 if the answer is yes.

    The program comes with a descriptor that is readable while it waits, and the function that answers it.
    """
    program, asked, answered = scratch / "test", scratch / "asked", scratch / "answered"
    for pipe in (asked, answered):
        os.mkfifo(pipe)
    program.write_text(_ASK.format(asked=shlex.quote(str(asked)), answered=shlex.quote(str(answered))))
    program.chmod(0o755)
    # A pipe that is open in both directions never waits for its other end, which may have been killed.
    with asked.open("r+b", 0) as questions, answered.open("r+b", 0) as answers:

        def answer() -> None:
            name = os.fsdecode(questions.readline().rstrip(b"\n"))
            answers.write(b"0\n" if question(scratch / name) else b"1\n")

        yield program, questions.fileno(), answer


def _fails(reproducer: Reproducer, folder: Path, compiled: bytes) -> bool:
    with temporary_folder() as scratch:
        file = scratch / "object.o"
        file.write_bytes(compiled)
        words = [word.replace("{object}", str(file)) for word in reproducer.test]
        return run_bounded(words, writable=None, folder=folder, timeout=120, name="the test").returncode != 0
