"""The driver of clang: levels, targets, `-cc1` lines, and options that need no toolchain of the machine."""

import os
import platform
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from mlgo_clang.command_lines import cc1_commands
from mlgo_clang.compiler import MULTIARCH, compiler_command, which
from mlgo_clang.other_machines import library_headers
from mlgo_clang.rustc_arguments import flags_of_level
from mlgo_gym.cache import cache_directory, errors_name_cache
from mlgo_gym.compiler.process import run_bounded
from mlgo_gym.corpus.flags import arity
from mlgo_gym.errors import CorpusError, ToolchainError, did_you_mean
from mlgo_gym.llvm.bitcode import BitcodeFacts
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command

LEVELS = ("Oz", "Os", "O2", "O3")
"""Optimisation levels of recordings and datasets."""

BUILTIN_LEVELS = LEVELS[:3]
"""Optimisation levels of the builtin corpus."""

DEFAULT_LEVEL = "Oz"
DEFAULT_TARGET = "x86_64-linux"
"""Target of corpora whose name has none."""


@dataclass(frozen=True, slots=True)
class Target:
    """A machine that modules are compiled for.

    Attributes:
        name: name in corpora and options.
        flags: driver flags of clang: triple, CPU, ABI and relocation model. Code for small memories has fixed
            addresses; that for Linux is position-independent.
        zig: words after `zig cc -target`: the triple and the CPU for which the compiler's wheel has a C library.
        headers: folder with the C library's headers for this target, and the one with its kernel's, below
            `lib/libc/include` of the wheel.
    """

    name: str
    flags: tuple[str, ...]
    zig: tuple[str, ...]
    headers: tuple[str, str] = ("arm-linux-musl", "arm-linux-any")

    @property
    def triple(self) -> str:
        """The triple in its driver flags."""
        return self.flags[0].removeprefix("--target=")

    @property
    def is_webassembly(self) -> bool:
        """Whether its objects are WebAssembly modules."""
        return self.triple.startswith("wasm")

    @property
    def architecture(self) -> str:
        """The first word of the triple."""
        return self.triple.partition("-")[0]


_TARGETS = (
    Target(
        DEFAULT_TARGET,
        ("--target=x86_64-unknown-linux-musl", "-march=x86-64", "-mtune=generic", "-fPIC"),
        ("x86_64-linux-musl",),
        ("x86_64-linux-musl", "x86-linux-any"),
    ),
    Target(
        "aarch64-linux",
        ("--target=aarch64-unknown-linux-musl", "-march=armv8-a", "-fPIC"),
        ("aarch64-linux-musl",),
        ("aarch64-linux-musl", "aarch64-linux-any"),
    ),
    Target(
        "riscv64gc",
        ("--target=riscv64-unknown-linux-musl", "-march=rv64gc", "-mabi=lp64d", "-fPIC"),
        ("riscv64-linux-musl",),
        ("riscv64-linux-musl", "riscv-linux-any"),
    ),
    Target(
        "riscv32imc",
        ("--target=riscv32-unknown-linux-musl", "-march=rv32imc", "-mabi=ilp32", "-fno-pic"),
        ("riscv32-linux-musl", "-mcpu=generic_rv32+m+a+c"),  # the C library needs atomics
        ("riscv32-linux-musl", "riscv-linux-any"),
    ),
    Target(
        "thumbv7em",
        ("--target=thumbv7em-unknown-linux-musleabi", "-mcpu=cortex-m4", "-mfloat-abi=soft", "-fno-pic"),
        ("thumb-linux-musleabi", "-mcpu=cortex_m4"),
    ),
    Target(
        "thumbv6m",
        ("--target=thumbv6m-unknown-linux-musleabi", "-mcpu=cortex-m0", "-mfloat-abi=soft", "-fno-pic"),
        ("thumb-linux-musleabi", "-mcpu=cortex_m4"),  # the C library has no code for a Cortex-M0
    ),
    Target("wasm32-wasi", ("--target=wasm32-unknown-wasip1",), ("wasm32-wasi",), ("wasm-wasi-musl", "wasm32-wasi-any")),
)
TARGETS = {target.name: target for target in _TARGETS}
"""The targets by name. `thumbv7em` is a Cortex-M4, `thumbv6m` a Cortex-M0, both with software floating point."""


def triple_of(flags: Sequence[str]) -> str:
    """Return the triple in flags of `-cc1`; empty if they have none."""
    return dict(pairwise(flags)).get("-triple", "")


def target_of_triple(triple: str) -> Target | None:
    """Return the target with a triple, as `-cc1` has it; None if there is none."""
    return next((target for target in TARGETS.values() if target.triple == triple), None)


def find_target(name: str) -> Target:
    """Return the target of a name; raise `CorpusError` if there is none."""
    if name not in TARGETS:
        raise CorpusError(f"expected a target of {', '.join(TARGETS)}, got {name!r}{did_you_mean(name, TARGETS)}")
    return TARGETS[name]


def check_level(level: str, levels: Sequence[str] = LEVELS, corpus: str = "") -> None:
    """Raise `CorpusError` for an optimisation level of a corpus that is not one of `levels`."""
    if level not in levels:
        where = f" in {corpus!r}" if corpus else ""
        raise CorpusError(f"expected a level of {', '.join(levels)}, got {level!r}{where}{did_you_mean(level, levels)}")


_DROPPED = frozenset(
    """
    -o -x -c -E -dumpdir -source-date-epoch
    -main-file-name -dependency-file -MT -MP -MG -sys-header-deps -module-file-deps -dependency-dot
    -header-include-file -serialize-diagnostic-file -diagnostic-log-file -opt-record-file -opt-record-passes
    -opt-record-format -split-dwarf-file -split-dwarf-output -stack-usage-file
    -D -U -I -F -iquote -isystem -isysroot -idirafter -iprefix -iwithprefix -iwithprefixbefore -iwithsysroot
    -internal-isystem -internal-externc-isystem -internal-iframework -c-isystem -cxx-isystem -stdlib++-isystem
    -include -include-pch -imacros -resource-dir -nostdsysteminc -nobuiltininc -nostdinc++ -undef
    -w -pedantic -pedantic-errors -ferror-limit -fcolor-diagnostics -fno-spell-checking
    -fdeprecated-macro -fskip-odr-check-in-gmf -fcxx-exceptions -fno-rtti -fgnu89-inline -fcommon -fno-common
    -trigraphs -fansi-escape-codes -fno-caret-diagnostics
    """.split()  # noqa: SIM905 - a word list
)
_DROPPED_JOINED = (
    "-D", "-U", "-I", "-W", "-R", "-std=", "-MT", "-fdiagnostics-", "-fno-diagnostics-", "-ferror-limit=",
    "-fmessage-length=", "-ftemplate-depth=", "-fconstexpr-", "-fbracket-depth=", "-fvisibility", "-fgnuc-version=",
    "-fdebug-compilation-dir=", "-fcoverage-compilation-dir=", "-fmacro-prefix-map=", "-fdebug-prefix-map=",
    "-fcoverage-prefix-map=", "-ffile-prefix-map=", "-fmodule", "-fimplicit-module", "-fno-implicit-module",
    "-fchar8_t", "-fno-char8_t", "-ftime-trace", "-fcrash-diagnostics-dir=", "-object-file-name=",
    "-coverage-notes-file=", "-coverage-data-file=", "-femit-coverage-", "-coverage-version=", "-stats-file=",
    "-fsanitize-ignorelist=", "-fsanitize-system-ignorelist=", "-fprofile-list=", "-fxray-always-instrument=",
    "-fxray-never-instrument=", "-fxray-attr-list=", "-frandomize-layout-seed-file=",
)  # fmt: skip


FRAME_LIMIT = "-fwarn-stack-size="
"""The `-cc1` argument of `-Wframe-larger-than=`; a recorded one means that a larger frame failed the build."""

FRAME_ERROR = "-Werror=frame-larger-than="


def cc1_line(toolchain: Toolchain, arguments: Sequence[str]) -> list[str]:
    """Return the `-cc1` line of the driver for one compile, which does not run; raise `ToolchainError` without one."""
    driver = toolchain.run([*arguments, "-###"])
    lines = cc1_commands(driver.stderr)
    if driver.returncode != 0 or len(lines) != 1:
        raise ToolchainError(
            f"expected one compile from clang's driver for {' '.join(arguments)}, got:\n{driver.stderr.strip()[-4000:]}"
        )
    return lines[0]


def code_generation_flags(line: Sequence[str]) -> tuple[str, ...]:
    """Return the flags for the `.cmd` file of a module from a `-cc1` line, whose last word is the input.

    Target, CPU, relocation model, frame pointers, sections, level and every `-mllvm` stay. Flags of the front end, of
    the preprocessor and of side outputs are dropped: they name source folders or are unknown to other versions. A limit
    of stack frames stays if a larger frame is an error.
    """
    fails = ("-Werror" in line or FRAME_ERROR in line) and "-Wno-error=frame-larger-than" not in line
    flags: list[str] = []
    position, end = 0, len(line) - 1
    while position < end:
        flag = line[position]
        following = position + 1 + arity(flag)
        if flag not in _DROPPED and not flag.startswith(_DROPPED_JOINED if fails else (*_DROPPED_JOINED, FRAME_LIMIT)):
            flags += line[position:following]
        position = following
    return tuple(flags)


def check_attributes(facts: BitcodeFacts, optimize: str) -> None:
    """Raise `CorpusError` if most functions of bitcode lack the attributes of an optimisation level."""
    expected = optimize if optimize in ("Oz", "Os") else "O1-O3"
    if facts.prevailing_level not in ("no functions", expected):  # helpers of coroutines have no attributes
        raise CorpusError(
            f"expected functions at -{optimize}, got {facts.minsize} minsize, {facts.optsize} optsize and "
            f"{facts.optnone} optnone of {facts.functions}; remove the attribute, or choose another clang"
        )


@lru_cache(maxsize=64)
def rust_flags(toolchain: Toolchain, triple: str, optimize: str, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the `-cc1` flags with which clang compiles bitcode of rustc for a triple as rustc itself does.

    `options` are driver flags of `Crate.driver_flags()`.
    """
    flags = [f"--target={triple}", *flags_of_level(optimize[1:]), *options]
    return code_generation_flags(cc1_line(toolchain, [*flags, "-c", "-x", "ir", os.devnull, "-o", "output"]))


PORTABLE_TARGET = "x86_64-linux-gnu.2.28"
"""Target of datasets, the same on every machine: baseline x86-64 and the glibc of Debian 10."""

NATIVE = "native"
"""Target name for the bundled compiler with this machine's headers, libraries and linker, as in `mlgo-clang`."""

PORTABLE = "portable"
"""Target name for the bundled compiler with its own headers, libraries and linker, whatever the machine has."""

SYSTEM_HEADERS = Path("/usr/include")


def recording_target() -> str:
    """Return the target of a recorded build: this machine if it has C headers and a linker, else the bundled ones."""
    has_linker = which("ld") is not None or which(f"{MULTIARCH}-ld") is not None
    return NATIVE if has_linker and (SYSTEM_HEADERS / "stdio.h").is_file() else PORTABLE


def bundled_target() -> str:
    """Return the default target of the bundled compiler: glibc on this machine's architecture."""
    return PORTABLE_TARGET.replace("x86_64", "aarch64") if platform.machine() == "aarch64" else PORTABLE_TARGET


def driver_options(toolchain: Toolchain, target: str | None = None) -> tuple[list[str], list[str]]:
    """Return the options for a clang, before and after those of a command line; none for an installed one.

    The driver is `zig clang`, which takes every flag of upstream's clang. Only `zig c++` knows the bundled headers of
    libc and libc++, so its command line is read for them. The target of the bundled compiler is
    `bundled_target()` by default: a name of `TARGETS`, a triple that zig knows, or `NATIVE`, with which it uses the
    machine's headers.
    """
    if not toolchain.bundled:
        return list(TARGETS[target].flags) if target in TARGETS else [], []
    if target == NATIVE:
        return compiler_command("bundled", "gcc")[2:], []
    after = ["-nostdinc", *([] if target else _multiarch_headers())]
    target = target or bundled_target()
    headers = library_headers(toolchain.command[0], zig_target(target))
    if not headers:
        raise ToolchainError(f"expected a target with a C library of the bundled compiler, got {target!r}")
    flags = TARGETS[target].flags if target in TARGETS else (f"--target={target.partition('.')[0]}",)
    # A source that is preprocessed already uses none of them.
    after = ["--start-no-unused-arguments", *after, *headers, "--end-no-unused-arguments"]
    return ["--no-default-config", *flags], after


def zig_target(target: str) -> list[str]:
    """Return the words after `zig cc -target` for a name of `TARGETS` or a triple."""
    return list(TARGETS[target].zig) if target in TARGETS else [target]


def linker_command(toolchain: Toolchain, mode: str, target: str | None = None) -> list[str]:
    """Return the driver command that links C or C++ (mode `c` or `c++`); the bundled clang links through `zig cc`.

    The target is as for `driver_options()`. With `NATIVE` the bundled clang links with this machine's libraries and
    linker.
    """
    if not toolchain.bundled:
        options = driver_options(toolchain, target)[0]
        return [*toolchain.command, f"--driver-mode={'g++' if mode == 'c++' else 'gcc'}", *options]
    if target == NATIVE:
        return compiler_command("bundled", "g++" if mode == "c++" else "gcc")
    zig = bundled_command("c++" if mode == "c++" else "cc")
    words = zig_target(target or bundled_target())
    return [*zig, "-target", *words, "-fno-sanitize=undefined"]  # which zig adds without -O


def linker_overrides(target: str | None) -> list[str]:
    """Return the words after a link's arguments: the target of a cross build counts, not that in the arguments."""
    return ["-target", *TARGETS[target].zig] if target in TARGETS else []


def _multiarch_headers() -> list[str]:
    """Return options that find `<x86_64-linux-gnu/python3.12/pyconfig.h>`, which Debian's Python.h includes.

    A folder that contains only a link of that name keeps all other headers of the machine hidden.
    """
    machine = bundled_target().partition(".")[0]
    folder = cache_directory() / "multiarch"
    if not (SYSTEM_HEADERS / machine).is_dir():
        return []
    with errors_name_cache(), suppress(FileExistsError):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / machine).symlink_to(SYSTEM_HEADERS / machine)
    return ["-idirafter", str(folder)]


UNBUILT_LIBRARY = "the bundled compiler has not built libc++: the first C++ link takes one to four minutes of CPU time"

_CACHE = re.compile(r'\.global_cache_dir = "((?:[^"\\]|\\.)*)"')


def bundled_caches() -> tuple[Path, ...]:
    """Return the cache folder of the bundled compiler, which it makes for its links; none if it names none."""
    completed = run_bounded(bundled_command("env"), writable=None, timeout=60, name="the bundled compiler")
    return tuple(map(Path, _CACHE.findall(completed.stdout)))


def library_is_built() -> bool:
    """Return whether the cache of the bundled compiler contains libc++."""
    return any(any(folder.glob("o/*/libc++.a")) for folder in bundled_caches())
