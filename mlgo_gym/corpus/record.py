"""Record a build: run it with shims in the place of its compilers."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from mlgo_gym.corpus import shim
from mlgo_gym.corpus.by_path import RECORDER, preload_variables
from mlgo_gym.corpus.driver_options import NATIVE, driver_options, linker_command
from mlgo_gym.corpus.recorder import Recorder, Recording, check_output
from mlgo_gym.errors import CorpusError, NothingCompiledError
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command, find_toolchain
from mlgo_gym.storage.cache import cache_directory, key_of
from mlgo_gym.storage.leftovers import make_own_folder

_C_NAMES = ("cc", "gcc", "clang", "c99", "c11")
_CXX_NAMES = ("c++", "g++", "clang++")
_COMPILER_NAME = re.compile(r"(?:[\w.]+-)*(cc|gcc|clang|c\+\+|g\+\+|clang\+\+)(?:-[\d.]+)?")
_GRACE = 10.0
_CLOCK_STEP = 0.1
"""How far, in seconds, the times of files may be behind those of the clock."""

_ARCHIVERS = {
    "ar": ("ar", "gcc-ar", "llvm-ar"),
    "ranlib": ("ranlib", "gcc-ranlib", "llvm-ranlib"),
}


@dataclass(frozen=True, slots=True)
class RecordedBuild:
    """What became of a build and of its recording.

    Attributes:
        status: the exit status of the build's command.
        recording: the corpus and what is missing in it.
    """

    status: int
    recording: Recording


def record_build(
    command: Sequence[str],
    output: Path,
    *,
    optimize: str = "Oz",
    toolchain: Toolchain | None = None,
    folder: Path | None = None,
    root: Path | None = None,
    environment: Mapping[str, str] | None = None,
    metadata: Mapping[str, object] | None = None,
    log: Path | None = None,
    probes: bool = False,
    native: bool = False,
    by_path: bool = True,
) -> RecordedBuild:
    """Run a build and make a corpus of what it compiles.

    The build finds shims under the names of all common compilers, on `PATH` and in `CC` and `CXX`. They run the
    toolchain's clang as the build asked, and record each C and C++ source that became an object, at another
    optimisation level if need be. A build that fails, or is interrupted (Ctrl-C, SIGTERM, SIGHUP), leaves the corpus of
    what it did compile. Of compiles with the same bitcode and flags one is kept. A profile, or another file that flags
    name, is kept in the corpus; what the build's flags have the compiler write beside the object is the build's own
    alone.

    A module, compiled with its recorded flags, has the executable sections of its source compiled with the flags of
    the build at the recorded level, byte for byte (`benchmarks/text_identity.py` tries 92 flags), but for these:
    `-march=native` and `-mtune=native` are left out, since a corpus is to be the same on every machine; so is `-flto`,
    with which there is no code before the link; `__DATE__` and `__TIME__` are those of 1970 unless the build sets
    `$SOURCE_DATE_EPOCH`, and `__FILE__` is relative to `root`, which matters only to code that looks into these texts.
    `-fprofile-use` asks for its file again whenever the module is compiled.

    Args:
        command: the command line of the build.
        output: where the corpus goes, a folder that does not exist or is empty.
        optimize: the level of the recorded modules: `Oz`, `Os`, `O2` or `O3`. It replaces the build's own.
        toolchain: the clang that both builds and records; the bundled one brings the headers of libc and libc++, and
            sees none of those that are installed on the machine.
        folder: where the build runs; here if None.
        root: what module names and sources are relative to; `folder` if None.
        environment: variables to set for the build.
        metadata: what to say of every module: `project`, `licence`, ….
        log: a file for what the build prints, in place of standard output and error.
        probes: whether to record what configure, CMake, Meson and the like compile to learn of the compiler.
        native: whether modules are to be what `mlgo-clang` makes of the same command lines, so that recipes that are
            found for them are found again by its builds: the bundled clang with this machine's headers and linker, and
            `__FILE__` as the build has it. Such a corpus is this machine's.
        by_path: whether to see compilers that the build calls by their path too, through a library that is preloaded
            into all of its programs (Linux). They are run as they are.

    Raises:
        NothingCompiledError: it compiled nothing.
        CorpusError: the command cannot be started, or `output` is in use.
        ToolchainError: there is no usable clang.
    """
    check_output(output)
    toolchain = toolchain or find_toolchain()
    folder = (folder or Path.cwd()).resolve()
    with Recorder(toolchain, optimize, root or folder, target=NATIVE if native else None, probes=probes) as recorder:
        variables = {**os.environ, **build_environment(toolchain, native=native), **(environment or {})}
        variables[shim.SETTINGS_VARIABLE] = str(recorder.write_settings())
        if by_path:
            variables |= preload_variables(_shims(toolchain, native=native), variables)
        start = time.time() - _CLOCK_STEP
        try:
            with nullcontext(None) if log is None else log.open("wb") as out:
                status = _run_build(command, folder, variables, out)
        except OSError as error:
            raise CorpusError(f"the build cannot be started: {error}; give a command that runs in {folder}") from error
        try:
            recording = recorder.collect(output, metadata)
            unseen = recorder.count_unseen(start)
            if unseen:
                others = {**recording.left_out, "an object that no compile seen has made": unseen}
                recording = replace(recording, left_out=others)
            return RecordedBuild(status, recording)
        except NothingCompiledError as error:
            raise NothingCompiledError(f"the build ended with status {status}; {error}", status) from error


def _run_build(command: Sequence[str], folder: Path, environment: Mapping[str, str], out: IO[bytes] | None) -> int:
    """Run a build and return its exit status; an interruption ends all of it, and is its status."""
    build = subprocess.Popen(list(command), cwd=folder, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        with _terminations_raised():
            return build.wait()
    except KeyboardInterrupt as interruption:
        for how in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(build.pid, how)
            with suppress(subprocess.TimeoutExpired):
                build.wait(timeout=_GRACE)
        with suppress(ProcessLookupError):
            os.killpg(build.pid, signal.SIGKILL)
        return -interruption.args[0] if interruption.args else -signal.SIGINT
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(build.pid, signal.SIGKILL)
        build.wait()
        raise


@contextmanager
def _terminations_raised() -> Iterator[None]:
    """Have SIGTERM and SIGHUP raise KeyboardInterrupt with their number, where this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(number)

    ends = (signal.SIGTERM, signal.SIGHUP)
    before = {end: signal.signal(end, stop) for end in ends if signal.getsignal(end) is not signal.SIG_IGN}
    try:
        yield
    finally:
        for end, handler in before.items():
            signal.signal(end, handler)


def build_environment(toolchain: Toolchain, *, native: bool = False) -> dict[str, str]:
    """Return the variables that put a toolchain's shims in the place of a build's compilers."""
    shims = _shims(toolchain, native=native)
    variables = {
        "PATH": f"{shims}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "CC": _word(shims / "cc"),
        "CXX": _word(shims / "c++"),
        "CCACHE_DISABLE": "1",
    }
    for name in _ARCHIVERS:
        if (shims / name).exists():
            variables[name.upper()] = _word(shims / name)
    return variables


def _word(program: Path) -> str:
    """Return a path, or what `PATH` finds it by where build systems would take the path for several words."""
    return program.name if any(character.isspace() for character in str(program)) else str(program)


def _shims(toolchain: Toolchain, *, native: bool) -> Path:
    """Return the folder of a toolchain's shims.

    It stays: a build folder that CMake or configure has set up remembers the path of its compiler. Without
    `$MLGO_RECORD` a shim only compiles.
    """
    launchers = _launchers(toolchain, native=native)
    folder = cache_directory() / "shims" / key_of(sorted(launchers.items()))[:16]
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = make_own_folder(folder.parent, ".shims-")
    for name, script in launchers.items():
        (staging / name).write_text(script, encoding="utf-8")
        (staging / name).chmod(0o755)
    staging.chmod(0o755)
    try:
        staging.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(staging)
    return folder


def _launchers(toolchain: Toolchain, *, native: bool) -> dict[str, str]:
    compilers = {"c": _C_NAMES, "c++": _CXX_NAMES}
    triple = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"
    names = {name: mode for mode, known in compilers.items() for name in known}
    names |= {f"{triple}-{name}": mode for name, mode in names.items() if name in ("gcc", "g++", "clang", "clang++")}
    for name in _installed_programs():
        match = _COMPILER_NAME.fullmatch(name)
        if match:
            names[name] = "c++" if "++" in match[1] else "c"
    scripts = {mode: _shim_script(toolchain, mode, native=native) for mode in compilers}
    launchers = {name: scripts[mode] for name, mode in names.items()}
    launchers[RECORDER] = _python_script("by-path", ([], [], []))
    for tool, aliases in _ARCHIVERS.items():
        if toolchain.bundled or shutil.which(tool) is None:
            launchers |= {alias: _script(bundled_command(tool)) for alias in aliases}
    return launchers


def _installed_programs() -> set[str]:
    programs: set[str] = set()
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if folder and Path(folder).is_dir():
            programs.update(path.name for path in Path(folder).iterdir())
    return programs


def _shim_script(toolchain: Toolchain, mode: str, *, native: bool) -> str:
    driver = f"--driver-mode={'g++' if mode == 'c++' else 'gcc'}"
    options = driver_options(toolchain, NATIVE if native else None)
    compiler = [*toolchain.command, driver, *options.before]
    linker = linker_command(toolchain, mode, native=native)
    return _python_script(mode, (linker, compiler, options.after))


def _python_script(mode: str, groups: Sequence[Sequence[str]]) -> str:
    words = [word for group in groups for word in (str(len(group)), *group)]
    return _script([sys.executable, "-I", "-S", str(Path(shim.__file__).absolute()), mode, *words])


def _script(words: Sequence[str]) -> str:
    return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'
