"""The entries of the argument `compile_options`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlgo_gym.compiler.limits import CPU_SECONDS, MEMORY_GIB, Limits
from mlgo_gym.episode.argument_types import check_types, option
from mlgo_gym.errors import MlgoError

COMPILE_OPTIONS = "compile_options"


def _check_positive(name: str, value: float | None, *, optional: bool = True) -> None:
    if (value is None and not optional) or (value is not None and not value > 0):
        raise MlgoError(f"expected {name} > 0{' or None' if optional else ''}, got {value!r}; correct {name}")


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The entries of `compile_options`: how each module is compiled."""

    flags: Sequence[str] | None = option(
        None,
        """Flags for modules without recorded ones: driver flags, or `-cc1` and its flags. Default: `-fPIC` and the
        level that the attributes of their functions show.""",
    )
    extra_flags: Sequence[str] = option((), "Further `-cc1` arguments for every compile, the baseline's included.")
    timeout: float = option(60.0, "Longest silence of a computing clang, in seconds.")
    memory_limit: float | None = option(MEMORY_GIB, "Address space and output of one compile, in GiB. None: no limit.")
    cpu_limit: float | None = option(CPU_SECONDS, "CPU time of one compile, in seconds. None: no limit.")
    preoptimize: bool | None = option(
        None,
        """Optimise each module once, keep the bitcode, and only generate code in episodes. Only for tasks whose
        decisions follow the optimiser; on by default for those.""",
    )
    verify_preoptimized: bool = option(False, "Check once per module that `preoptimize` gives the same object.")
    trust_flags: bool = option(
        False,
        """Run the recorded flags of the corpus without a check. By default flags that may do more than shape code are
        refused, and compilers cannot write outside their scratch folder where the kernel supports it.""",
    )
    fork_resets: bool | None = option(
        None,
        """Start further episodes of a module from copies of a clang that waits at its first decision. At most 8
        modules, or 32 functions, wait in 1 GiB together. Default: on for tasks whose decisions follow the optimiser
        if `preoptimize` is off, and for `scope="function"` if the compile ends with its function.""",
    )
    echo_reply: bool = option(False, 'Let clang print the advice it received; the last `info["stderr"]` has it.')

    def __post_init__(self) -> None:
        check_types(self)
        _check_positive("timeout", self.timeout, optional=False)
        _check_positive("memory_limit", self.memory_limit)
        _check_positive("cpu_limit", self.cpu_limit)

    @property
    def limits(self) -> Limits:
        """The limits of one compile."""
        return Limits(self.memory_limit, self.cpu_limit)
