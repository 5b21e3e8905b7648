"""One call of `mlgo-rustc`: it becomes rustc, or compiles a crate with a policy.

cargo starts it as its `RUSTC_WRAPPER`, with rustc as the first argument. It also stands for rustc itself.
"""

from __future__ import annotations

import mlgo_clang.import_path  # noqa: F401 - first, because it decides which modules the others import

# isort: split

import os
import sys

from mlgo_clang.advised import compile_advised
from mlgo_clang.compiler import FAILED, RUSTC, become, compiler_command, open_standard_streams, say, which
from mlgo_clang.counters import count, is_first_of_build
from mlgo_clang.errors import PolicyError, UsageError
from mlgo_clang.interactive import run_alone
from mlgo_clang.invocation import Invocation
from mlgo_clang.job import Job
from mlgo_clang.rustc_arguments import Crate, flags_of_level, llvm_version, rustc_version
from mlgo_clang.settings import PREFIX, VARIABLES, show_help, split_arguments
from mlgo_clang.two_steps import TwoSteps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlgo_clang.settings import Settings

_ADVISORS = ("-enable-ml-inliner", "-regalloc-enable-")
_OTHER_WORK = frozenset(("-C:linker-plugin-lto", "-C:incremental", "-C:save-temps", "-C:no-prepopulate-passes"))
_OLDEST_LLVM = 17
_NO_LTO = frozenset(("off", "false", "no", "n"))


def main() -> int:
    """Run `mlgo-rustc`, and return the exit status; most often this process becomes rustc."""
    open_standard_streams()
    try:
        return _run(sys.argv[1:])
    except UsageError as error:
        say(f"error: {error}", RUSTC)
        return FAILED


def _run(arguments: Sequence[str]) -> int:
    settings, rest = split_arguments(arguments)
    if f"{PREFIX}help" in arguments:
        show_help()
        return 0
    program, rest = _split_program(rest)
    settings.internal = False  # Rust has no linkonce_odr functions
    command = [*program, *rest]
    try:
        crate = Crate(rest)
    except OSError:  # rustc reports the file that cannot be read
        become(command)
    # A build script finds out what the compiler can do; cargo sets both for scripts alone (The Cargo Book, "Environment
    # variables Cargo sets for build scripts").
    is_probe = "OPT_LEVEL" in os.environ and "NUM_JOBS" in os.environ
    if crate.runs_in_the_compiler or crate.source in ("", "-") or is_probe:
        become(command)
    if settings.uses_clang_alone or not crate.emits_code:
        return _run_alone(command, crate)
    is_own = "CARGO_PRIMARY_PACKAGE" in os.environ or "CARGO" not in os.environ
    if problem := settings.problem_of_level(crate.level, "opt-level="):
        count("left to rustc", f"because not at a level of MLGO_LEVELS: opt-level={crate.level}")
        if is_own and is_first_of_build():
            say(f"warning: {crate.name}, the first of this build, is left to rustc: {problem}", RUSTC)
        return _run_alone(command, crate)
    if problem := _problem(crate):
        if is_own:
            say(f"warning: {crate.name} is left to rustc: {problem}", RUSTC)
        count("left to rustc", f"because {problem}")
        return _run_alone(command, crate)
    if is_own and (options := [word for word in crate.llvm_arguments if word.lstrip("-").startswith("inline")]):
        say(f"warning: {crate.name}: {' '.join(options)} changes the decisions of policies that see LLVM's own", RUSTC)
    return _compile(settings, program, rest, crate)


class _CrateJob(Job):
    def __init__(self, settings: Settings, crate: Crate, program: Sequence[str], rest: Sequence[str]) -> None:
        invocation = Invocation(crate.source, "", crate.level, "")
        super().__init__(settings, invocation, program, rest, RUSTC, compiler_command("bundled", "gcc"))
        self._crate = crate

    def make_bitcode(self) -> bytes:
        import tempfile

        from mlgo_clang.programs import run_to_end

        with tempfile.TemporaryDirectory() as folder:
            bitcode, sources = os.path.join(folder, "module.bc"), os.path.join(folder, "sources.d")
            words = [*self.compiler, *self._crate.bitcode_arguments(self._crate.level, bitcode, sources)]
            if run_to_end(words, self.settings.timeout)[0] != 0:
                raise PolicyError("the front end does not compile the crate")
            with open(bitcode, "rb") as file:
                return file.read()

    def explain(self, problem: str) -> str:
        llvm = llvm_version(rustc_version(self.compiler))
        if 0 < llvm < _OLDEST_LLVM:
            return f"expected a rustc with LLVM {_OLDEST_LLVM} or newer, got LLVM {llvm}; run rustup update"
        return problem

    def make_steps(self) -> TwoSteps:
        """Return a compile of the bitcode by clang, which makes the decisions of rustc and names the callees."""
        bitcode = os.memfd_create("mlgo-rustc-bitcode", os.MFD_CLOEXEC)
        with open(bitcode, "wb") as file:
            file.write(self.bitcode())
            file.flush()
            flags = [*flags_of_level(self._crate.level), *self._crate.driver_flags()]
            named = self._crate.values.get("--target", "")
            target = [f"--target={named}"] if named and not named.endswith(".json") else []
            words = [*target, *flags, "-c", "-x", "ir", f"/proc/{os.getpid()}/fd/{bitcode}", "-o", os.devnull]
            steps = TwoSteps(self.clang, words, self.settings.timeout)
        # rustc itself compiles with the decisions.
        steps.exact = False
        return steps


def _compile(settings: Settings, program: Sequence[str], rest: list[str], crate: Crate) -> int:
    if crate.values.get("-C:codegen-units") != "1":
        # The options of LLVM belong to the process, and codegen units are its threads.
        rest = [word for name, _, words in crate.options if name != "-C:codegen-units" for word in words]
        rest += ("-C", "codegen-units=1")
        if "CARGO_PRIMARY_PACKAGE" in os.environ:
            say(
                f"{crate.name} is compiled as one codegen unit; set codegen-units = 1 in [profile.release] to have the "
                "same without a policy",
                RUSTC,
            )
    return _noted(compile_advised(_CrateJob(settings, crate, program, rest)), crate)


def _split_program(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words that start rustc, of which cargo gives one or two, and its arguments."""
    end = 0
    while end < len(arguments) and not arguments[end].startswith(("-", "@")) and not arguments[end].endswith(".rs"):
        end += 1
    named = arguments[0] if end else os.environ.get("MLGO_RUSTC") or "rustc"
    program = which(named)
    if program is None and end:
        raise UsageError(f"expected rustc as the first argument, got {named!r}, which is no program")
    if program is None:
        raise UsageError("expected rustc on PATH or in $MLGO_RUSTC, got none; install Rust from rustup.rs")
    return [program, *arguments[1:end]], list(arguments[end:])


def _problem(crate: Crate) -> str:
    """Return why no policy can decide for a crate, and the remedy; an empty text if one can."""
    if crate.values.get("-C:lto", "off") not in _NO_LTO:
        return 'expected no link time optimisation, got lto; set lto = "off" in [profile.release]'
    if other := next((name for name in crate.values if name in _OTHER_WORK), ""):
        return f"expected a plain compile, got -C {other.removeprefix('-C:')}; build without it"
    if any(argument.startswith(_ADVISORS) for argument in crate.llvm_arguments):
        return "expected no advisor in -C llvm-args, got one; remove it from RUSTFLAGS"
    return ""


def _run_alone(command: list[str], crate: Crate) -> int:
    """Run rustc without a policy, and have cargo and sccache learn on which settings the crate depends."""
    if _dependencies_path(crate) is None:
        become(command)
    return _noted(run_alone(command), crate)


def _noted(status: int, crate: Crate) -> int:
    """Return the exit status of a compile; after a success add the settings to the crate's dep-info.

    They are among its environment variables there, so that cargo rebuilds when they change.
    """
    path = _dependencies_path(crate)
    if status == 0 and path is not None and os.path.isfile(path):
        with open(path, "a", encoding="utf-8", errors="surrogateescape") as file:
            for name in ("RUSTC_WRAPPER", *VARIABLES):
                value = os.environ.get(name)
                escaped = (value or "").replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
                file.write(f"# env-dep:{name}\n" if value is None else f"# env-dep:{name}={escaped}\n")
    return status


def _dependencies_path(crate: Crate) -> str | None:
    """Return the path of the dep-info that rustc writes for a crate, or None."""
    for name, value, _ in crate.options:
        for part in value.split(",") if name == "--emit" else ():
            kind, _, path = part.partition("=")
            if kind == "dep-info":
                named = crate.values.get("-o", "")
                return path or (f"{os.path.splitext(named)[0]}.d" if named else f"{crate.output}.d")
    return None
