"""Optimisation levels and targets of corpora: driver flags, and the headers of the C library."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mlgo_gym.errors import CorpusError, did_you_mean

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
    def has_int128(self) -> bool:
        """Whether clang has the type `__int128` for it."""
        return "64" in self.triple.partition("-")[0]

    @property
    def is_native(self) -> bool:
        """Whether this machine runs its programs without an emulator."""
        return self.triple.partition("-")[0] == platform.machine()


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
