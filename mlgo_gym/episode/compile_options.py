"""The argument `compile_options` of environments: how each module is compiled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlgo_gym.compiler.limits import CPU_SECONDS, MEMORY_GIB, Limits
from mlgo_gym.episode.argument_types import check_types
from mlgo_gym.errors import MlgoError

COMPILE_OPTIONS = "compile_options"


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The entries of `compile_options`: how each module is compiled.

    Args:
        flags: Flags for modules without recorded ones: driver flags, or `-cc1` and its flags. Default: `-fPIC` and the
            level that the attributes of their functions show.
        extra_flags: Further `-cc1` arguments for every compile, the baseline's included.
        timeout: Longest silence of a computing clang, in seconds.
        memory_limit: Address space and output of one compile, in GiB. None: no limit.
        cpu_limit: CPU time of one compile, in seconds, rounded up (≥ 1). None: no limit.
        preoptimize: Optimise each module once, keep the bitcode, and only generate code in episodes. Only for tasks
            whose decisions follow the optimiser; on by default for those.
        trust_flags: Run the recorded flags of the corpus without a check. By default flags that may do more than shape
            code are refused, and compilers cannot write outside their scratch folder where the kernel supports it.
        check_flags: Check `flags` and `extra_flags` like the recorded flags of a corpus, for arguments that come from a
            file. Excludes `trust_flags`.
        fork_resets: Start further episodes of a module from copies of a clang that waits at its first decision. At most
            8 modules, or 32 functions, wait in 1 GiB together. Default: on for tasks whose decisions follow the
            optimiser if `preoptimize` is off, and for `scope="function"` if the compile ends with its function.
    """

    flags: Sequence[str] | None = None
    extra_flags: Sequence[str] = ()
    timeout: float = 60.0
    memory_limit: float | None = MEMORY_GIB
    cpu_limit: float | None = CPU_SECONDS
    preoptimize: bool | None = None
    trust_flags: bool = False
    check_flags: bool = False
    fork_resets: bool | None = None

    def __post_init__(self) -> None:
        check_types(self)
        if self.cpu_limit is not None and self.cpu_limit < 1:
            raise MlgoError(f"expected cpu_limit ≥ 1 or None, got {self.cpu_limit!r}; the kernel counts whole seconds")
        for name in ("timeout", "memory_limit"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise MlgoError(
                    f"expected {name} > 0{'' if name == 'timeout' else ' or None'}, got {value!r}; correct {name}"
                )
        if self.trust_flags and self.check_flags:
            raise MlgoError("expected trust_flags or check_flags, got both; omit one")

    @property
    def limits(self) -> Limits:
        """The limits of one compile."""
        return Limits(self.memory_limit, self.cpu_limit)


def with_compile_options(arguments: Mapping[str, Any], **entries: Any) -> dict[str, Any]:
    """Return the arguments of an environment with further entries in `compile_options`."""
    return {**arguments, COMPILE_OPTIONS: {**arguments.get(COMPILE_OPTIONS, {}), **entries}}
