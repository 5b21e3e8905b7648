"""One call of `mlgo-rustc`: it becomes rustc, or compiles a crate with a policy.

cargo starts it as its `RUSTC_WRAPPER`, with rustc as the first argument. It also stands for rustc itself.
"""

from __future__ import annotations

import os
import sys

from mlgo_clang.compiler import FAILED, RUSTC, become, compiler_command, run_alone, say, which
from mlgo_clang.counters import count
from mlgo_clang.errors import PolicyError, UsageError
from mlgo_clang.invocation import Invocation
from mlgo_clang.rustc_arguments import Crate, flags_of_level, llvm_version, rustc_version
from mlgo_clang.settings import VARIABLES, split_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlgo_clang.advised import Job
    from mlgo_clang.settings import Settings
    from mlgo_clang.two_steps import TwoSteps

_ADVISORS = ("-enable-ml-inliner", "-regalloc-enable-")
_OTHER_WORK = frozenset(("-C:linker-plugin-lto", "-C:incremental", "-C:save-temps", "-C:no-prepopulate-passes"))
_OLDEST_LLVM = 17
_NO_LTO = frozenset(("off", "false", "no", "n"))


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return the exit status; most often this process becomes rustc."""
    try:
        program, rest = _split_program(arguments)
        settings, rest = split_arguments(rest)
        if settings.search:
            raise UsageError("expected no search with rustc; record the build and run mlgo-gym search --recipes=DIR")
    except UsageError as error:
        say(f"error: {error}", RUSTC)
        return FAILED
    command = [*program, *rest]
    crate = _read_crate(rest)
    if crate is None or crate.level not in settings.levels or not crate.source or crate.runs_in_the_compiler:
        become(command)
    values = {name: value for name, value, _ in crate.options}
    if settings.uses_clang_alone or not crate.emits_code:
        return _run_alone(command, crate, values)
    if problem := _problem(crate, values):
        if "CARGO_PRIMARY_PACKAGE" in os.environ or "CARGO" not in os.environ:
            say(f"warning: {crate.name} is left to rustc: {problem}", RUSTC)
        count("left to rustc")
        return _run_alone(command, crate, values)
    return _compile(settings, program, rest, crate, values)


def _compile(settings: Settings, program: Sequence[str], rest: list[str], crate: Crate, values: dict[str, str]) -> int:
    from mlgo_clang.advised import Job, compile_advised

    class CrateJob(Job):
        def bitcode(self) -> bytes:
            return _front_end_bitcode(self.compiler, crate, self.settings.timeout)

        def explain(self, problem: str) -> str:
            llvm, _ = llvm_version(rustc_version(self.compiler))
            if 0 < llvm < _OLDEST_LLVM:
                return f"expected a rustc with LLVM {_OLDEST_LLVM} or newer, got LLVM {llvm}; run rustup update"
            return problem

        def two_steps(self) -> TwoSteps:
            if self._steps is None:
                self._steps = _two_steps_of_clang(self, crate)
            return self._steps

    if values.get("-C:codegen-units") != "1":
        # The options of LLVM belong to the process, and codegen units are its threads.
        rest = [word for name, _, words in crate.options if name != "-C:codegen-units" for word in words]
        rest += ("-C", "codegen-units=1")
        if "CARGO_PRIMARY_PACKAGE" in os.environ:
            say(
                f"{crate.name} is compiled as one codegen unit; set codegen-units = 1 in [profile.release] to have the "
                "same without a policy",
                RUSTC,
            )
    try:
        clang = compiler_command("bundled", "gcc")
    except UsageError as error:
        say(f"error: {error}", RUSTC)
        return FAILED
    invocation = Invocation(crate.source, "", crate.level, "")
    status = compile_advised(CrateJob(settings, invocation, program, rest, RUSTC, clang))
    if status == 0:
        _note_settings(crate, values)
    return status


def _split_program(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words that start rustc, of which cargo gives one or two, and its arguments."""
    end = 0
    while end < len(arguments) and not arguments[end].startswith(("-", "@")) and not arguments[end].endswith(".rs"):
        end += 1
    program = list(arguments[:end])
    if not program:
        found = which(os.environ.get("MLGO_RUSTC") or "rustc")
        if found is None:
            raise UsageError("expected rustc on PATH or in $MLGO_RUSTC, got none; install Rust from rustup.rs")
        program = [found]
    elif which(program[0]) is None:
        raise UsageError(f"expected rustc as the first argument, got {program[0]!r}, which is no program")
    else:
        program[0] = which(program[0]) or program[0]
    return program, list(arguments[end:])


def _read_crate(arguments: list[str]) -> Crate | None:
    """Return the crate of a command line; None if it cannot be read, of which rustc reports the reason."""
    try:
        return Crate(arguments)
    except OSError:
        return None


def _problem(crate: Crate, values: dict[str, str]) -> str:
    """Return why no policy can decide for a crate, and the remedy; an empty text if one can."""
    if (lto := values.get("-C:lto")) is not None and lto not in _NO_LTO:
        return 'expected no link time optimisation, got lto; set lto = "off" in [profile.release]'
    if other := next((name for name in values if name in _OTHER_WORK), ""):
        option = other.removeprefix("-C:")
        return f"expected a plain compile, got -C {option}; build without it"
    if any(argument.startswith(_ADVISORS) for value in _llvm_arguments(crate) for argument in value.split()):
        return "expected no advisor in -C llvm-args, got one; remove it from RUSTFLAGS"
    return ""


def _llvm_arguments(crate: Crate) -> list[str]:
    return [value for name, value, _ in crate.options if name == "-C:llvm-args"]


def _front_end_bitcode(program: Sequence[str], crate: Crate, seconds: float) -> bytes:
    import tempfile

    from mlgo_clang.programs import run_to_end

    with tempfile.TemporaryDirectory() as folder:
        bitcode, sources = os.path.join(folder, "module.bc"), os.path.join(folder, "sources.d")
        words = [*program, *crate.bitcode_arguments(crate.level, bitcode, sources)]
        result = run_to_end(words, seconds)
        if result.returncode != 0:
            raise PolicyError("the front end does not compile the crate")
        with open(bitcode, "rb") as file:
            return file.read()


def _two_steps_of_clang(job: Job, crate: Crate) -> TwoSteps:
    """Return a compile of a crate's bitcode by clang, which makes the decisions of rustc and names the callees."""
    from mlgo_clang.two_steps import TwoSteps

    bitcode = os.memfd_create("mlgo-rustc-bitcode", os.MFD_CLOEXEC)
    with open(bitcode, "wb") as file:
        file.write(job.bitcode())
        file.flush()
        flags = [*flags_of_level(crate.level), *crate.driver_flags()]
        named = [value for name, value, _ in crate.options if name == "--target"]
        target = [f"--target={named[-1]}"] if named and not named[-1].endswith(".json") else []
        source = f"/proc/{os.getpid()}/fd/{bitcode}"
        steps = TwoSteps(job.clang, [*target, *flags, "-c", "-x", "ir", source, "-o", os.devnull], job.settings.timeout)
    # rustc itself compiles with the decisions.
    steps.exact = False
    return steps


def _run_alone(command: list[str], crate: Crate, values: dict[str, str]) -> int:
    """Run rustc without a policy, and have cargo and sccache learn on which settings the crate depends."""
    if _dependencies_path(crate, values) is None:
        become(command)
    status = run_alone(command)
    if status == 0:
        _note_settings(crate, values)
    return status


def _note_settings(crate: Crate, values: dict[str, str]) -> None:
    """Add the settings to the environment variables of a crate's dep-info, so that cargo rebuilds when they change."""
    path = _dependencies_path(crate, values)
    if path is None or not os.path.isfile(path):
        return
    lines = []
    for name in ("RUSTC_WRAPPER", *VARIABLES):
        value = os.environ.get(name)
        if value is None:
            lines.append(f"# env-dep:{name}\n")
        else:
            escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
            lines.append(f"# env-dep:{name}={escaped}\n")
    with open(path, "a", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(lines)


def _dependencies_path(crate: Crate, values: dict[str, str]) -> str | None:
    """Return the path of the dep-info that rustc writes for a crate, or None."""
    for name, value, _ in crate.options:
        for part in value.split(",") if name == "--emit" else ():
            kind, _, path = part.partition("=")
            if kind == "dep-info":
                named = values.get("-o", "")
                return path or (f"{os.path.splitext(named)[0]}.d" if named else f"{crate.output}.d")
    return None


def main() -> int:
    """Run `mlgo-rustc`."""
    return run(sys.argv[1:])
