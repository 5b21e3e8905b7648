"""Parts of the programs that `mlgo-clang` starts: exit status, tools, and the module on standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from mlgo_clang.driver_commands import cc1_commands
from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.corpus.driver import code_generation_flags
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError, ToolchainError
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.loading import with_callee_features
from mlgo_gym.storage.temporary_folders import temporary_folder
from mlgo_gym.tasks.measurement import ESTIMATED_INSTRUCTIONS

SECONDS = 600.0
"""Seconds without a sign of life after which a clang is stopped: a build keeps all cores busy."""


def exit_status_of(work: Callable[[], object]) -> int:
    """Do the work of a program and return its exit status: 1 after an error, whose text is one line on standard error.

    `mlgo-clang` shows the line.
    """
    try:
        work()
    except (MlgoError, OSError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)  # noqa: T201 - for mlgo-clang
        return 1
    return 0


def output_of(command: Sequence[str]) -> str:
    """Run a tool and return its standard output, or raise a ToolchainError."""
    result = run_bounded(command, writable=None, name=command[0])
    if result.returncode != 0:
        raise ToolchainError(f"{command[0]} failed: {result.stderr.strip()[-2000:]}")
    return result.stdout.strip()


def cc1_flags(command: Sequence[str]) -> tuple[str, ...]:
    """Return the `-cc1` arguments with which a driver's command line compiles the bitcode of its source."""
    # `zig clang` takes its first word as the name of the tool.
    position = 2 if command[1:2] == ["clang"] else 1
    words = [*command[:position], "-###", *command[position:]]
    result = run_bounded(words, writable=None, timeout=SECONDS, errors="surrogateescape")
    lines = cc1_commands(result.stderr)
    if result.returncode != 0 or len(lines) != 1:
        raise MlgoError(f"expected one -cc1 line from {command[0]}, got {result.stderr.strip()[-500:]!r}")
    return code_generation_flags(lines[0])


@contextmanager
def module_environment(
    data: bytes, command: Sequence[str], clang: str, policy: str, *, evicts: bool = False
) -> Iterator[CompilerEnv]:
    """Give an environment with one module, compiled by `clang` as a driver's command line compiles its source.

    The data are the module's bitcode before any optimisation. The environment is of inlining, and computes callee
    features if the policy uses them; or it is of evictions, by the metric `estimated-instructions`.

    Raises:
        MlgoError: the flags or the module cannot be used.
    """
    with temporary_folder() as folder:
        bitcode = folder / "module.bc"
        bitcode.write_bytes(data)
        options = {"flags": list(cc1_flags(command)), "timeout": SECONDS}
        arguments = {"corpus": str(bitcode), "clang": clang, "compile_options": options}
        if evicts:
            env = make_environment("mlgo/RegAllocEvict-v0", {**arguments, "metric": ESTIMATED_INSTRUCTIONS})
        else:
            env = make_environment("mlgo/Inline-v0", with_callee_features(arguments, [policy]))
        try:
            yield env
        finally:
            env.close()
