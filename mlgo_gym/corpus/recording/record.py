"""Recording of a build: it runs with shims instead of its compilers."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from mlgo_gym.cache import FileCache, cache_directory, errors_name_cache, key_of
from mlgo_gym.compiler.process import run_bounded
from mlgo_gym.corpus.driver import driver_options, linker_command, linker_overrides
from mlgo_gym.corpus.folder import format_counts
from mlgo_gym.corpus.recording import shim
from mlgo_gym.corpus.recording.recorder import Recorder, Recording, check_output
from mlgo_gym.errors import CorpusError, NothingCompiledError
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command, find_toolchain
from mlgo_gym.storage.temporary_folders import complete_folder, locked, temporary_folder

_NAMES = {"c": ("cc", "gcc", "clang", "c99", "c11"), "c++": ("c++", "g++", "clang++")}
"""Names of compilers by shim mode; another language is another mode."""

RUSTC_WRAPPER = "mlgo-gym-rustc"
"""Name of the shim that cargo starts with the path of rustc as the first argument."""

PATH_SHIM = "mlgo-gym-by-path"
"""Name of the shim that is started instead of a compiler, with the compiler's path as the first argument."""

_PRELOAD = Path(__file__).parent / "preload.c"
_FLAGS = ("-O1", "-fPIC", "-ffreestanding", "-fno-stack-protector", "-fvisibility=hidden", "-nostdinc", "-w", "-c")

_SHIM = (sys.executable, "-I", "-S", str(Path(shim.__file__).absolute()))
_COMPILER_NAME = re.compile(r"(?:[\w.]+-)*(cc|gcc|clang|c\+\+|g\+\+|clang\+\+)(?:-[\d.]+)?")
_GRACE = 10.0
_LOCK_SECONDS = 60.0
PROGRESS_SECONDS = 30.0
"""Interval between two reports of the progress of a build, in seconds."""

_ARCHIVERS = {"ar": ("ar", "gcc-ar", "llvm-ar"), "ranlib": ("ranlib", "gcc-ranlib", "llvm-ranlib")}


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
    target: str | None = None,
    intercept_paths: bool = True,
    keep_interrupted: bool = True,
    crates: Collection[str] | None = None,
    keep_objects: bool = True,
    progress: Callable[[int], object] = lambda _compiles: None,
) -> Recording:
    """Run a build and write a corpus of its compiles.

    The build finds shims under the names of all common compilers, on `PATH` and in `CC` and `CXX`. A shim runs the
    toolchain's clang with the build's arguments, then records each C and C++ source that became an object. A build that
    fails or is interrupted (Ctrl-C, SIGTERM, SIGHUP) leaves the corpus of its compiles so far. Compiles with equal
    bitcode and flags are one module. Files that flags name, such as profiles, are copied into the corpus.

    rustc runs unchanged, and its crates are recorded except build scripts and procedural macros. The module of a crate
    is compiled to the instructions that rustc writes at -Oz and -Os, with one codegen unit and without LTO. Exceptions
    are rare: bitcode does not keep the order of the uses of a value.

    A module, compiled with its recorded flags, has the executable sections of its source compiled with the build's
    flags at the recorded level, byte for byte, except:

    - `-march=native` and `-mtune=native` are dropped, so that a corpus is the same on every machine.
    - `-flto` is dropped, because there is no code before the link.
    - `__DATE__` and `__TIME__` are those of 1970 unless the build sets `$SOURCE_DATE_EPOCH`; `__FILE__` is relative to
      `root`.
    - `-fprofile-use` needs its file whenever the module is compiled.

    Args:
        command: command line of the build.
        output: corpus folder; must not exist or be empty.
        optimize: optimisation level of the modules, `Oz`, `Os`, `O2` or `O3`; it replaces the build's.
        toolchain: the clang that builds and records, by default `find_toolchain()`. The bundled clang uses its own
            headers of libc and libc++, and none of the machine's.
        folder: working directory of the build; by default the current one.
        root: folder that module names and sources are relative to; by default `folder`.
        environment: variables to set for the build.
        metadata: facts to add to every module: `project`, `licence`, ….
        log: file for the output of the build; by default it goes to standard output and error.
        target: one of `TARGETS`, for a build that runs on this machine and makes programs of another; or `NATIVE`, to
            record the result of `mlgo-clang` for the same command lines, so that its builds find recipes for the
            modules: with this machine's headers and linker, and `__FILE__` as in the build. By default the target is
            that of the build, with the bundled headers for `bundled_target()`.
        intercept_paths: whether to record compilers that the build calls by path too, through a library that is
            preloaded into its programs (Linux). They run unchanged.
        keep_interrupted: whether an interrupted build leaves a corpus. If not, the signal is raised again once the
            build has ended.
        crates: names of the Rust packages to record; by default all.
        keep_objects: whether the objects of the build are of use. If not, they are compiled at -O1 to save time.
        progress: called each half minute with the number of compiles so far.

    Raises:
        NothingCompiledError: no compile was seen.
        CorpusError: the command cannot be started, or `output` contains files.
        ToolchainError: there is no usable clang.
    """
    check_output(output)
    toolchain = toolchain or find_toolchain()
    folder = (folder or Path.cwd()).resolve()
    with Recorder(toolchain, optimize, root or folder, target=target) as recorder:
        shims = _shims(toolchain, target, keep_objects=keep_objects)
        variables = {**os.environ, **_build_environment(shims), **(environment or {})}
        recorder.settings["shims"] = str(shims)
        recorder.settings["crates"] = None if crates is None else sorted(crates)
        # cargo knows the level then, and its later builds are not affected.
        variables["CARGO_PROFILE_RELEASE_OPT_LEVEL"] = recorder.settings["rust_level"]
        variables[shim.SETTINGS_VARIABLE] = str(recorder.write_settings())
        if intercept_paths:
            variables |= _preload_variables(shims, variables)
        before = recorder.objects()
        try:
            with nullcontext(None) if log is None else log.open("wb") as out:
                # A build under make inherits the descriptors of its jobserver.
                build = subprocess.Popen(
                    command, cwd=folder, env=variables, stdout=out, stderr=out, start_new_session=True, close_fds=False
                )
                status = _wait_for(build, lambda: progress(recorder.compiles), keep_interrupted=keep_interrupted)
        except OSError as error:
            raise CorpusError(f"expected a command that runs in {folder}: {error}") from error
        unseen = recorder.count_unseen(before)
        skipped = {"an object of a cache or of a compiler that was not intercepted": unseen} if unseen else {}
        try:
            recording = recorder.collect(output, metadata)
        except NothingCompiledError as error:
            counts = f" Skipped: {format_counts(skipped)}." if skipped else ""
            raise NothingCompiledError(f"the build ended with status {status}; {error}{counts}", status) from error
        return replace(recording, status=status, skipped={**recording.skipped, **skipped})


def _wait_for(build: subprocess.Popen[bytes], progress: Callable[[], object], *, keep_interrupted: bool) -> int:
    """Return the exit status of a build; an interruption ends all of its processes."""
    try:
        with _terminations_raised():
            while True:
                try:
                    return build.wait(timeout=PROGRESS_SECONDS)
                except subprocess.TimeoutExpired:  # noqa: PERF203 - one iteration is half a minute
                    progress()
    except KeyboardInterrupt as interruption:
        for how in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(build.pid, how)
            with suppress(subprocess.TimeoutExpired):
                build.wait(timeout=_GRACE)
        with suppress(ProcessLookupError):
            os.killpg(build.pid, signal.SIGKILL)
        number: int = interruption.args[0] if interruption.args else signal.SIGINT
        if not keep_interrupted:
            signal.raise_signal(number)
        return -number
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(build.pid, signal.SIGKILL)
        build.wait()
        raise


@contextmanager
def _terminations_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt with the signal number on SIGTERM and SIGHUP, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(number)

    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _build_environment(shims: Path) -> dict[str, str]:
    """Return the environment variables that replace the compilers of a build by shims."""
    # Build systems split `CC` into words, so for a path with spaces it is the name on `PATH`.
    prefix = "" if any(map(str.isspace, str(shims))) else f"{shims}/"
    variables = {
        "PATH": f"{shims}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "CC": f"{prefix}cc",
        "CXX": f"{prefix}c++",
        "CCACHE_DISABLE": "1",
        "RUSTC_WRAPPER": str(shims / RUSTC_WRAPPER),
    }
    for name in _ARCHIVERS:
        if (shims / name).exists():
            variables[name.upper()] = f"{prefix}{name}"
    return variables


def _shims(toolchain: Toolchain, target: str | None, *, keep_objects: bool) -> Path:
    """Return the folder of a toolchain's shims, kept for configured build folders, which remember their compiler."""
    launchers = _launchers(toolchain, target, [] if keep_objects else ["-O1", "-g0"])
    folder = cache_directory() / "shims" / key_of(sorted(launchers.items()))[:16]
    if folder.is_dir():
        return folder
    with errors_name_cache(), locked(folder, _LOCK_SECONDS):
        if not folder.is_dir():
            with complete_folder(folder) as staging:
                for name, script in launchers.items():
                    (staging / name).write_text(script, encoding="utf-8")
                    (staging / name).chmod(0o755)
    return folder


def _launchers(toolchain: Toolchain, target: str | None, level: Sequence[str]) -> dict[str, str]:
    triple = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"
    names = {name: mode for mode, group in _NAMES.items() for name in group}
    names |= {f"{triple}-{name}": mode for name, mode in names.items() if name in ("gcc", "g++", "clang", "clang++")}
    folders = [Path(folder) for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder]
    for program in (path for folder in folders if folder.is_dir() for path in folder.iterdir()):
        match = _COMPILER_NAME.fullmatch(program.name)
        if match:
            names[program.name] = "c++" if "++" in match[1] else "c"
    scripts = {"by-path": _script([*_SHIM, "by-path", *["0"] * 4])}
    before, after = driver_options(toolchain, target)
    for mode in _NAMES:
        compiler = [*toolchain.command, f"--driver-mode={'g++' if mode == 'c++' else 'gcc'}", *before]
        groups = (linker_command(toolchain, mode, target), linker_overrides(target), compiler, [*after, *level])
        scripts[mode] = _script([*_SHIM, mode, *(word for group in groups for word in (str(len(group)), *group))])
    launchers = {name: scripts[mode] for name, mode in names.items()}
    launchers[PATH_SHIM] = scripts["by-path"]
    launchers[RUSTC_WRAPPER] = _script([*_SHIM, "rust"])
    if rustc := shutil.which("rustc"):
        launchers["rustc"] = _script([*_SHIM, "rust", rustc])
    caches = {name: path for name in shim.CACHES if (path := shutil.which(name))}
    launchers |= {name: _script([*_SHIM, "by-path", *["0"] * 4, path]) for name, path in caches.items()}
    for tool, aliases in _ARCHIVERS.items():
        if toolchain.bundled or shutil.which(tool) is None:
            launchers |= {alias: _script(bundled_command(tool)) for alias in aliases}
    return launchers


def _script(words: Sequence[str]) -> str:
    return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'


def _preload_variables(shims: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that intercept compilers started by path; empty on systems other than Linux.

    Programs in the folder `shims` are not intercepted; `environment` is that of the build.
    """
    if sys.platform != "linux":
        return {}
    return {
        "LD_PRELOAD": ":".join(filter(None, (environment.get("LD_PRELOAD"), str(_library())))),
        "MLGO_SHIMS": str(shims),
        "MLGO_BY_PATH": str(shims / PATH_SHIM),
    }


def _library() -> Path:
    """Return the library to preload, built once by the bundled compiler and its linker."""
    libraries = FileCache("preload", ".so")
    key = key_of(_PRELOAD.read_text(encoding="utf-8"), _FLAGS)
    if known := libraries.get(key):
        return known
    with temporary_folder() as scratch:
        Path(scratch, "empty.c").touch()
        shared = [*bundled_command("ld.lld"), "-shared"]
        for command in (
            [*bundled_command("clang"), *_FLAGS, str(_PRELOAD), "-o", "preload.o"],
            [*bundled_command("clang"), *_FLAGS, "empty.c", "-o", "empty.o"],
            # Old C libraries have dlsym in libdl; an empty library of that name adds it to the needed ones.
            [*shared, "-soname", "libdl.so.2", "empty.o", "-o", "libdl.so"],
            [*shared, "--no-as-needed", "preload.o", "libdl.so", "-o", "preload.so"],
        ):
            built = run_bounded(command, writable=(scratch,), folder=scratch, timeout=60)
            if built.returncode != 0:
                raise CorpusError(
                    f"the library that intercepts compilers cannot be built: {built.stderr.strip()}; record without "
                    "it: --no-intercept-paths, intercept_paths=False"
                )
        with errors_name_cache():
            return libraries.put(key, Path(scratch, "preload.so").read_bytes(), 0o777)
