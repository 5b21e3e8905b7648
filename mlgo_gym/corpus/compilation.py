"""The compile of one module by one clang: command line, confinement, limits and cache key."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from mlgo_clang.channel import SIZE_LIMIT, WASM_SIZE_LIMIT
from mlgo_clang.command_lines import drop_options
from mlgo_gym.cache import JsonCache, key_of
from mlgo_gym.compiler.limits import DEFAULT_LIMITS, Limits
from mlgo_gym.compiler.printed_module import PrintedModule
from mlgo_gym.compiler.process import STACK_USAGE_FLAGS
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus.corpus import Module, missing_bitcode
from mlgo_gym.corpus.driver import FRAME_ERROR, FRAME_LIMIT, cc1_line, find_target, triple_of
from mlgo_gym.corpus.flags import check_arguments, refused_argument, without_flags
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.advisors import Advisor
from mlgo_gym.llvm.bitcode import BitcodeFacts, read_bitcode
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.toolchain import Toolchain

_LEVELS = {"Os": "-Os", "O0": "-O0", "O1-O3": "-O2"}

# Options that the driver adds with files and folders of this machine; bitcode does not depend on them.
_LOCAL_WITH_VALUE = frozenset({"-o", "-x", "-main-file-name", "-resource-dir"})
_LOCAL_JOINED = ("-fdebug-compilation-dir=", "-fcoverage-compilation-dir=")

_SECONDS = 600.0
"""Time limit of a compile for `Compilation.plain_object()`."""

_EMBEDDING = ("-fembed-bitcode", "-lto-embed-bitcode")
"""Flags that embed bitcode in the object for extraction."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compile of one module, without output and channels.

    Attributes:
        flags: `-cc1` flags that decide the result, without input.
        inputs: arguments that name the input files.
        confined: whether the sandbox can restrict writes to the output: all flags are allowed ones.
        link_facts: link facts of the build, for sessions with callee features.
        code: the module when the inliner starts, for sessions with the code at decisions.
    """

    toolchain: Toolchain
    module: Module
    flags: tuple[str, ...]
    inputs: tuple[str, ...]
    confined: bool = False
    limits: Limits = DEFAULT_LIMITS
    link_facts: LinkFacts | None = None
    code: PrintedModule | None = field(default=None, compare=False)

    @property
    def command(self) -> tuple[str, ...]:
        """Command line, to which a session adds channels and output."""
        return (*self.toolchain.command, *self.flags, *self.inputs)

    @property
    def triple(self) -> str:
        """Triple in the flags; empty if they have none."""
        return triple_of(self.flags)

    def session(self, advisors: Sequence[Advisor] = (), *, code: bool = False, **options: bool) -> Session:
        """Start the compile under its confinement and limits, as `Session`; raise `CompilerError` if it cannot.

        With `code`, decisions have the code of the module.
        """
        link_facts = None
        if self.link_facts is not None:
            bitcode = self.module.bitcode
            source = Path(_facts(bitcode, bitcode.stat().st_mtime_ns).source_filename).name
            link_facts = replace(self.link_facts, covers_module=source in self.link_facts.sources)
        return Session(
            self.command,
            advisors,
            confined=self.confined,
            limits=self.limits,
            link_facts=link_facts,
            code=self.code if code else None,
            **options,
        )

    def plain_object(self) -> bytes:
        """Return the object of clang's own choices; raise `CompilerError` if the compile fails."""
        with self.session() as session:
            return session.finish(_SECONDS).object_bytes

    def key(self, *parts: object) -> str:
        """Return a cache key of the given parts and all that decides the result: compiler, files and flags."""
        return key_of(self.toolchain.identity, self.module.contents(), self.flags, *parts)


def plan(
    module: Module,
    toolchain: Toolchain,
    extra_flags: Sequence[str] = (),
    limits: Limits = DEFAULT_LIMITS,
    *,
    target: str | None = None,
) -> Compilation:
    """Return the compile of a module: its flags, expanded by clang's driver if necessary, `extra_flags`, the input.

    A module without recorded flags is compiled for the target, one of `TARGETS`; by default for its own triple.
    google/ml-compiler-opt puts additions after the input, which only matters for another `-x` or ThinLTO index. The
    `extra_flags` are `-cc1` arguments of the caller, who has checked those that come from a file.

    Raises:
        UntrustedError: the module is not trusted and one of its flags is not allowed, as recorded or as clang's driver
            expands it.
        CorpusError: the bitcode is missing.
        ToolchainError: clang's driver refuses the flags.
    """
    if not module.bitcode.is_file():
        raise missing_bitcode(module.bitcode)
    recorded = module.flags or default_flags(module, target)
    if module.thinlto_index is not None:
        recorded = tuple(flag for flag in recorded if not flag.startswith("-fthinlto-index="))
    if any(flag.startswith(_EMBEDDING) for flag in recorded):
        recorded = without_flags(recorded, _EMBEDDING)
    origin, is_checked = f"module {module.name!r}", bool(module.flags) and not module.trusted
    if is_checked:
        check_arguments(recorded, origin, module.inputs)
    if recorded[:1] != ("-cc1",):
        triple = _facts(module.bitcode, module.bitcode.stat().st_mtime_ns).triple
        # The bitcode has it, whoever wrote the flags.
        of_bitcode = (f"--target={triple}",) if triple else ()
        check_arguments(of_bitcode, origin)
        recorded = _expand((*of_bitcode, *recorded), toolchain)
        if is_checked:
            check_arguments(recorded, origin, module.inputs)
    # An absolute path cannot be mistaken for an option.
    inputs = ["-x", "ir", str(module.bitcode.absolute())]
    if module.thinlto_index is not None:
        inputs += [f"-fthinlto-index={module.thinlto_index}", "-mllvm", "-thinlto-assume-merged"]
    limited = any(flag.startswith(FRAME_LIMIT) for flag in (*recorded, *extra_flags))
    # With -w a frame above the limit is no error.
    warnings = ("-Wno-everything", FRAME_ERROR) if limited else ("-w",)
    flags = (*recorded, *warnings, *extra_flags)
    if triple_of(flags).startswith("wasm") and not any(SIZE_LIMIT in flag for flag in flags):
        flags += ("-mllvm", WASM_SIZE_LIMIT)
    checked = tuple(flag for flag in flags if flag not in STACK_USAGE_FLAGS)
    confined = _is_compiled(toolchain.binary) and refused_argument(checked, module.inputs) is None
    return Compilation(toolchain, module, flags, tuple(inputs), confined, limits)


def default_flags(module: Module, target: str | None = None) -> tuple[str, ...]:
    """Return the flags for a module without recorded flags, by the attributes of most of its functions.

    -Oz for `minsize` or a module without functions, -Os for `optsize`, -O0 for `optnone`, else -O2. Raises
    `CorpusError` if the bitcode is of another architecture than the target.
    """
    facts = _facts(module.bitcode, module.bitcode.stat().st_mtime_ns)
    level = _LEVELS.get(facts.prevailing_level, "-Oz")
    if target is None:
        return (level,) if facts.triple.startswith("wasm") else (level, "-fPIC")
    triples = (facts.triple, find_target(target).triple)
    # Arm and Thumb are the same architecture.
    own, wanted = (re.sub(r"^(?:arm|thumb)(?!64)\w*", "arm", triple.partition("-")[0]) for triple in triples)
    if own not in ("", wanted):
        raise CorpusError(
            f"module {module.name!r}: expected bitcode for {target}, got {facts.triple}; choose another target"
        )
    return (*find_target(target).flags, level)


@lru_cache(maxsize=65536)
def _facts(bitcode: Path, _mtime_ns: int) -> BitcodeFacts:
    return read_bitcode(bitcode)


@lru_cache(maxsize=64)
def _is_compiled(program: Path) -> bool:
    """Return whether a program is a binary; a script may need to write elsewhere and is not confined."""
    with program.open("rb") as file:
        return file.read(2) != b"#!"


@lru_cache(maxsize=4096)
def _expand(flags: tuple[str, ...], toolchain: Toolchain) -> tuple[str, ...]:
    """Return the `-cc1` line for driver flags, cached on disk."""

    def expand() -> dict[str, list[str]]:
        line = cc1_line(toolchain, [*flags, "-c", "-x", "ir", os.devnull, "-o", "-"])
        return {"flags": drop_options(line, (*_LOCAL_JOINED, os.devnull), _LOCAL_WITH_VALUE)}

    return tuple(JsonCache("driver-flags").remembered(key_of(toolchain.identity, flags), expand)["flags"])
