"""From a module and a clang to the command line of one compile."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mlgo_gym.corpus.allowed import check_arguments, refused_argument
from mlgo_gym.corpus.driver_line import cc1_line
from mlgo_gym.corpus.flags import edit_flags
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import BitcodeFacts, read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.limits import DEFAULT_LIMITS, Limits
from mlgo_gym.storage.cache import JsonCache, key_of

_LEVELS = {"Oz": "-Oz", "Os": "-Os", "O0": "-O0", "O1-O3": "-O2"}

_LEFT_OUT = frozenset({"-o", "-x", "-main-file-name", "-resource-dir"})
_LEFT_OUT_JOINED = ("-fdebug-compilation-dir=", "-fcoverage-compilation-dir=")
"""What the driver adds that names files and folders of one machine; it does not matter once there is bitcode."""

_EMBEDDING = ("-fembed-bitcode", "-lto-embed-bitcode")
_OVERRIDE_ME = "<UNSPECIFIED>"

_expansions = JsonCache("driver-flags")


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compile of one module, but for its output and its channels.

    Attributes:
        toolchain: the compiler.
        module: the module.
        flags: the `-cc1` arguments that shape the result, without paths of the input.
        inputs: the arguments that name the input files.
        confined: whether all flags are of those that only shape code, so that it has nothing to write but its output,
            and can be kept from doing so.
        limits: how much it may take.
    """

    toolchain: Toolchain
    module: Module
    flags: tuple[str, ...]
    inputs: tuple[str, ...]
    confined: bool = False
    limits: Limits = DEFAULT_LIMITS

    @property
    def command(self) -> tuple[str, ...]:
        """The whole command line, to which a session adds channels and output."""
        return (*self.toolchain.command, *self.flags, *self.inputs)

    def key(self, *parts: object) -> str:
        """Return a key of everything that decides the result: compiler, bitcode, index, flags, and further parts."""
        index = self.module.thinlto_index
        summary = None if index is None else key_of(index.read_bytes().hex())
        return key_of(self.toolchain.identity, self.module.digest(), summary, self.flags, *parts)


def plan(
    module: Module,
    toolchain: Toolchain,
    extra_flags: Sequence[str] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> Compilation:
    """Return the compile of a module.

    The arguments are the module's own flags, the caller's additions, and the input with ThinLTO's. The loader of
    google/ml-compiler-opt has the additions last, which makes no difference but to another `-x` or index.

    Args:
        module: what to compile; its flags are used as recorded, driver flags are expanded by clang's own driver.
        toolchain: the compiler.
        extra_flags: `-cc1` arguments to add, which are the caller's own and can be any.
        limits: how much it may take.

    Raises:
        UntrustedError: the module's flags may do more than shape its code.
        CorpusError: the bitcode is gone, or the flags must be completed by hand first.
        ToolchainError: the compiler's driver refuses the flags.
    """
    if not module.bitcode.is_file():
        raise CorpusError(f"module {module.name!r} was to be at {module.bitcode}, and there is no such file")
    recorded = module.flags or default_flags(module)
    if _OVERRIDE_ME in recorded:
        raise CorpusError(
            f"the flags of module {module.name!r} are still {_OVERRIDE_ME}: write the flags of the original link into "
            "global_command_override of its corpus_description.json"
        )
    if module.thinlto_index is not None:
        recorded = tuple(flag for flag in recorded if not flag.startswith("-fthinlto-index="))
    recorded = without_embedding(recorded)
    trusted = module.trusted or not module.flags
    if not trusted:
        check_arguments(recorded, f"module {module.name!r}", module.inputs)
    if recorded[0] != "-cc1":
        recorded = _expand(recorded, _facts(module.bitcode, module.bitcode.stat().st_mtime_ns).triple, toolchain)
        if not trusted:
            check_arguments(recorded, f"module {module.name!r}", module.inputs)
    # A relative name could be one of an option.
    inputs = ["-x", "ir", str(module.bitcode.absolute())]
    if module.thinlto_index is not None:
        inputs += [f"-fthinlto-index={module.thinlto_index}", "-mllvm", "-thinlto-assume-merged"]
    flags = (*recorded, "-w", *extra_flags)
    confined = _is_compiled(toolchain.binary) and refused_argument(flags, module.inputs) is None
    return Compilation(toolchain, module, flags, tuple(inputs), confined, limits)


def without_embedding(flags: tuple[str, ...]) -> tuple[str, ...]:
    """Return flags without those that put bitcode into the object, as a build for extraction has: it is no code."""
    if any(flag.startswith(_EMBEDDING) for flag in flags):
        return edit_flags(flags, delete=_EMBEDDING)
    return flags


def default_flags(module: Module) -> tuple[str, ...]:
    """Return how a module without recorded flags is compiled: at the level that its functions' attributes show.

    -Oz for one whose functions mostly have `minsize`, -Os for `optsize`, -O0 for `optnone`, else -O2; -Oz where there
    is no function to tell by.

    Raises:
        CorpusError: it is no bitcode.
    """
    facts = _facts(module.bitcode, module.bitcode.stat().st_mtime_ns)
    return (_LEVELS.get(facts.prevailing_level, "-Oz"), "-fPIC")


@lru_cache(maxsize=65536)
def _facts(bitcode: Path, _mtime_ns: int) -> BitcodeFacts:
    return read_bitcode(bitcode)


@lru_cache(maxsize=64)
def _is_compiled(program: Path) -> bool:
    """Return whether a program is no script: what one of those writes is its owner's affair."""
    with program.open("rb") as file:
        return file.read(2) != b"#!"


@lru_cache(maxsize=4096)
def _expand(flags: tuple[str, ...], triple: str, toolchain: Toolchain) -> tuple[str, ...]:
    """Return the `-cc1` line that the driver makes of driver flags, asked once and remembered."""
    key = key_of(toolchain.identity, triple, flags)
    known = _expansions.get(key)
    if known is None:
        known = {"flags": _ask_driver(flags, triple, toolchain)}
        _expansions.put(key, known)
    return tuple(known["flags"])


def _ask_driver(flags: Sequence[str], triple: str, toolchain: Toolchain) -> list[str]:
    target = [f"--target={triple}"] if triple else []
    words = cc1_line(toolchain, [*target, *flags, "-c", "-x", "ir", os.devnull, "-o", "-"])
    kept: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        if word in _LEFT_OUT:
            position += 2
            continue
        if word != os.devnull and not word.startswith(_LEFT_OUT_JOINED):
            kept.append(word)
        position += 1
    return kept
