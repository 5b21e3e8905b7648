"""Command lines of rustc, split into options, and its version.

`mlgo-rustc`, recordings and the package read them.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TAKE_A_VALUE = frozenset(
    """
    --cfg --check-cfg -L -l --crate-type --crate-name --edition --emit --print -o --out-dir --explain --target -A
    --allow -W --warn --force-warn -D --deny -F --forbid --cap-lints -C --codegen -Z --extern --sysroot
    --error-format --json --color --diagnostic-width --remap-path-prefix --remap-path-scope --env-set
    """.split()  # noqa: SIM905 - a word list
)
_JOINED = ("-L", "-l", "-A", "-W", "-D", "-F", "-C", "-Z", "-o")
_NO_CODE = frozenset({"--print", "--explain", "-V", "--version", "-h", "--help", "-vV"})
_CODE = frozenset({"link", "obj"})

_DROPPED = frozenset(
    """
    --emit -o --out-dir --error-format --json --color --diagnostic-width -g -O --cap-lints -C:opt-level
    -C:codegen-units -C:lto -C:linker-plugin-lto -C:embed-bitcode -C:incremental -C:save-temps -C:debuginfo -C:strip
    -C:split-debuginfo -C:no-prepopulate-passes -C:llvm-args
    """.split()  # noqa: SIM905 - likewise
)
_CLANG_FLAGS = (
    "--no-default-config", "-fPIC", "-ffunction-sections", "-fdata-sections", "-fomit-frame-pointer",
    "-Xclang", "-fmerge-functions", "-mllvm", "-mergefunc-use-aliases", "-mllvm", "-trap-unreachable",
    "-mllvm", "-no-trap-after-noreturn", "-Xclang", "-mrelax-relocations=no", "-w",
)  # fmt: skip
_FOR_SIZE = ("-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops")
_POSITIONS = {"static": "-fno-pic", "dynamic-no-pic": "-mdynamic-no-pic", "pie": "-fPIE"}

_VERSION_SECONDS = 60

Option = tuple[str, str, list[str]]
"""Name, value and words of an option: `-C opt-level=z` is `-C:opt-level`, `z`; an input file has an empty name."""


def split_options(arguments: Sequence[str], folder: str = "") -> Iterator[Option]:
    """Yield the options of the words after `rustc`; each file `@PATH`, relative to a folder, contributes its lines."""
    rest = iter(arguments)
    for word in rest:
        name, equals, value = word.partition("=")
        if word.startswith("@"):
            with open(os.path.join(folder, word[1:]), encoding="utf-8", errors="surrogateescape") as file:
                yield from split_options(file.read().splitlines(), folder)
        elif word in _TAKE_A_VALUE:
            value = next(rest, "")
            yield _named(word, value, [word, value])
        elif word.startswith("--") and equals:
            yield _named(name, value, [word])
        elif word.startswith(_JOINED) and len(word) > 2 and word not in _NO_CODE:
            yield _named(word[:2], word[2:], [word])
        else:
            yield (word, "", [word]) if word.startswith("-") and word != "-" else ("", word, [word])


def _named(name: str, value: str, words: list[str]) -> Option:
    if name in ("-C", "--codegen"):
        key, _, value = value.partition("=")
        return f"-C:{key.replace('_', '-')}", value, words
    return name, value, words


class Crate:
    """The crate that a command line of rustc compiles.

    Attributes:
        source: path of its root; empty if there is none.
        types: its kinds: `bin`, `lib`, `proc-macro`, ….
        level: the optimisation level as in `-C opt-level=`.
        emits_code: whether rustc writes an object, a library or a program.
        output: the folder of its outputs and the suffix of their names, which tell two builds of a crate apart.
        options: the options in order.
        values: the last value of each option by its name.
    """

    def __init__(self, arguments: Sequence[str], folder: str = "") -> None:
        self.options = list(split_options(arguments, folder))
        self.values = values = {name: value for name, value, _ in self.options}
        inputs = [value for name, value, _ in self.options if not name]
        self.source = inputs[0] if len(inputs) == 1 else ""
        stem = os.path.splitext(os.path.basename(self.source))[0]
        self.name = values.get("--crate-name") or stem.replace("-", "_")
        self.types = {kind for name, value, _ in self.options if name == "--crate-type" for kind in value.split(",")}
        emitted = [value for name, value, _ in self.options if name == "--emit"]
        kinds = {part.partition("=")[0] for value in emitted for part in value.split(",")}
        self.emits_code = _NO_CODE.isdisjoint(values) and (not emitted or not kinds.isdisjoint(_CODE))
        self.is_test = "--test" in values
        # The later one counts.
        levels = [value if name != "-O" else "3" for name, value, _ in self.options if name in ("-O", "-C:opt-level")]
        self.level = levels[-1] if levels else "0"
        self.output = os.path.join(values.get("--out-dir", ""), f"{self.name}{values.get('-C:extra-filename', '')}")

    @property
    def runs_in_the_compiler(self) -> bool:
        """Whether it is a procedural macro or a build script, which the build itself runs."""
        return "proc-macro" in self.types or self.name.startswith("build_script_")

    def bitcode_arguments(self, level: str, bitcode: str, sources: str) -> list[str]:
        """Return arguments that write the crate's bitcode before optimisation, and the list of its sources.

        Link time optimisation, debug information and a CPU of `native` are dropped.
        """
        words = [word for name, value, part in self.options if _is_kept(name, value) for word in part]
        settings = (f"opt-level={level}", "codegen-units=1", "debuginfo=0", "embed-bitcode=no", "no-prepopulate-passes")
        options = [word for setting in settings for word in ("-C", setting)]
        return [*words, *options, "--cap-lints=allow", f"--emit=llvm-bc={bitcode},dep-info={sources}"]

    @property
    def llvm_arguments(self) -> list[str]:
        """The options of LLVM."""
        return [word for name, value, _ in self.options if name == "-C:llvm-args" for word in value.split()]

    def driver_flags(self) -> list[str]:
        """Return the driver flags of clang for options that decide code and that bitcode does not contain."""
        flags = []
        for name, value, _ in self.options:
            if name == "-C:relocation-model":
                flags.append(_POSITIONS.get(value, "-fPIC"))
            elif name == "-C:code-model":
                flags.append(f"-mcmodel={value}")
        return flags + [word for argument in self.llvm_arguments for word in ("-mllvm", argument)]


def _is_kept(name: str, value: str) -> bool:
    return name not in _DROPPED and not (name == "-C:target-cpu" and value == "native")


def flags_of_level(level: str) -> list[str]:
    """Return the driver flags with which clang compiles bitcode of rustc to the instructions of rustc.

    The differences from C are those of rustc_codegen_llvm: it merges functions by aliases, ends unreachable code with a
    trap, and neither vectorises nor unrolls loops for size. `level` is a value of `-C opt-level=`.
    """
    return [f"-O{level}", *_CLANG_FLAGS, *(_FOR_SIZE if level in ("s", "z") else ())]


def read_sources(text: str) -> list[str]:
    """Return the source files that the dep-info of a crate names, which has a line `FILE:` for each."""
    return [line[:-1].replace("\\ ", " ") for line in text.splitlines() if line.endswith(":") and line[0] != "#"]


def rustc_version(program: Sequence[str] = ("rustc",)) -> str:
    """Return the output of `rustc -vV`: release, host and LLVM; empty if rustc does not print it in time."""
    import subprocess

    try:
        return subprocess.run(
            [*program, "-vV"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_VERSION_SECONDS, check=False
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return ""


def llvm_version(text: str) -> int:
    """Return the major version of the LLVM in the output of `rustc -vV`; 0 if it has none."""
    major = text.partition("LLVM version: ")[2].partition(".")[0]
    return int(major) if major.isdigit() else 0
