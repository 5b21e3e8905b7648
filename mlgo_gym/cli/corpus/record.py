"""`mlgo-gym corpus record`, `prepare` and `back-ends`: corpora from builds that run here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mlgo_gym.cli.options import ClangOption, JobsOption, LevelOption, NewCorpusOption, TrustFlagsOption
from mlgo_gym.cli.output import FAILED, JsonOption, SafeConsole, echo, show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.corpus.driver import NATIVE
from mlgo_gym.corpus.recording.libraries import MESSAGE, build_libraries, is_gcc, library_is_built
from mlgo_gym.corpus.recording.links import LINKS_FILE
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.corpus.recording.recorder import RecordFailure, Recording, format_counts
from mlgo_gym.corpus.targets import TARGETS, find_target
from mlgo_gym.corpus.thinlto_back_ends import record_back_ends
from mlgo_gym.llvm.toolchain import find_toolchain


def record(
    command: Annotated[list[str], typer.Argument(help="The build, after --: make -j4, cmake --build build, …")],
    output: NewCorpusOption,
    optimize: LevelOption = "Oz",
    clang: ClangOption = None,
    root: Annotated[
        Path | None, typer.Option(help="Folder that module names are relative to. Default: the working directory.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help=f"Target of a cross build: {', '.join(TARGETS)}. With 'native' the corpus has the result of "
            "mlgo-clang, for its recipes; valid on this machine only. Default: that of the build."
        ),
    ] = None,
    probes: Annotated[
        bool, typer.Option(help="Also record feature tests of configure, CMake, Meson and the like.")
    ] = False,
    back_ends: Annotated[
        Path | None, typer.Option(help="Folder for a second corpus of ThinLTO back ends, of links with -flto=thin.")
    ] = None,
    intercept_paths: Annotated[
        bool, typer.Option(help="Also record compilers that the build calls by path, with a preloaded library.")
    ] = True,
) -> None:
    """Run a build and record what it compiles as a corpus at the chosen level.

    The build is the command after `--`. It finds the chosen clang under the name of every common compiler, and in CC
    and CXX. rustc compiles the crates of cargo itself, and each becomes a module too. The bundled clang has headers of
    libc and libc++ and ignores libraries of the system; choose another clang with --clang for a build that needs these.
    Exit status: the build's if it is not 0, else 1 if a source could not be recorded.
    """
    toolchain = find_toolchain(clang)
    if target not in (None, NATIVE):
        find_target(target)
    if toolchain.bundled and not library_is_built():
        echo(f"mlgo-gym: {MESSAGE}", err=True)
    recording = record_build(
        command,
        output,
        optimize=optimize,
        toolchain=toolchain,
        root=root,
        probes=probes,
        target=target,
        intercept_paths=intercept_paths,
    )
    console = SafeConsole(stderr=True, highlight=False)
    console.print(f"{output}: {len(recording.modules)} modules, {recording.lines} lines of source, -{optimize}")
    _print_details(console, recording)
    print_failures(console, recording.failures)
    if (status := recording.status) != 0:
        end = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        console.print(f"the build {end}; the corpus contains its compiles until then")
    if back_ends is not None:
        report = record_back_ends(output, back_ends, toolchain)
        console.print(f"{back_ends}: {len(report.modules)} back ends, {len(report.skipped)} skipped")
    raise typer.Exit((status if status >= 0 else 128 - status) or FAILED * bool(recording.failures))


def _print_details(console: Console, recording: Recording) -> None:
    if recording.links:
        console.print(f"{recording.links} link{'s are' if recording.links > 1 else ' is'} in {LINKS_FILE}")
    if recording.replaced:
        console.print(f"{recording.replaced} objects were compiled more than once; the last compile is kept")
    if recording.duplicates:
        console.print(f"{recording.duplicates} compiles gave the bitcode of another one and are not modules")
    for path, number in recording.compiler_paths.items():
        gcc = ", which is gcc and not clang" if is_gcc(path) else ""
        console.print(
            f"{number} compiles called {path} by path{gcc}: the build has its objects, and the modules come from the "
            "recording clang",
            markup=False,
        )
    if recording.skipped:
        console.print(f"skipped: {format_counts(recording.skipped)}", markup=False)


def print_failures(console: Console, failures: tuple[RecordFailure, ...]) -> None:
    """Print each source that could not be recorded, with the first error of the compiler."""
    if failures:
        console.print(f"{len(failures)} compiles could not be recorded:")
    for failure in failures:
        lines = failure.message.strip().splitlines() or ["the compiler printed nothing"]
        error = next((line for line in lines if "error" in line), lines[-1])
        console.print(f"  {failure.source}: {error}", markup=False, soft_wrap=True)


def prepare() -> None:
    """Build the C and C++ libraries of the bundled compiler, which otherwise the first links do.

    This takes minutes of CPU time once per machine. Recordings with an installed clang do not need it.
    """
    started = last = time.monotonic()
    current = ""
    for description in (*build_libraries(find_toolchain("bundled")), ""):
        if current:
            echo(f"{current}: {time.monotonic() - last:.1f} s", err=True)
        current, last = description, time.monotonic()
    echo(f"the libraries of the bundled compiler are built; {time.monotonic() - started:.1f} s")


def back_ends(
    corpus: Annotated[Path, typer.Argument(help="Folder of a recorded corpus with links.json.")],
    *,
    output: NewCorpusOption,
    link: Annotated[
        list[str] | None,
        typer.Option(help="Output of a link to compile with ThinLTO; repeatable.", show_default="thin"),
    ] = None,
    clang: ClangOption = None,
    jobs: JobsOption = None,
    trust_flags: TrustFlagsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a corpus of ThinLTO back ends: each module with the functions that its link imports, and its index.

    By default the links that the build made with -flto=thin.
    """
    toolchain = find_toolchain(clang)
    with progress_over(None, "Links") as advance:
        report = record_back_ends(
            corpus, output, toolchain, links=link or (), jobs=jobs, trust_flags=trust_flags, progress=advance.at
        )
    console = SafeConsole(stderr=True, highlight=False)
    for name, why in report.skipped:
        console.print(f"  {name}: {why}", markup=False, soft_wrap=True)
    show(
        as_json,
        {"output": output, "modules": len(report.modules), "skipped": dict(report.skipped)},
        f"{output}: {len(report.modules)} modules, {len(report.skipped)} skipped",
    )
