"""`mlgo-gym corpus record`: run a build and keep what it compiles as a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mlgo_gym.cli.output import FAILED, NamingConsole, say
from mlgo_gym.corpus.back_ends import record_back_ends
from mlgo_gym.corpus.by_path import is_gcc
from mlgo_gym.corpus.link_library import MESSAGE, library_is_built
from mlgo_gym.corpus.links import LINKS_FILE
from mlgo_gym.corpus.record import record_build
from mlgo_gym.corpus.recorder import RecordFailure, counted
from mlgo_gym.llvm.toolchain import find_toolchain


def record(
    command: Annotated[list[str], typer.Argument(help="The build, after --: make -j4, cmake --build build, …")],
    output: Annotated[Path, typer.Option(help="The folder of the new corpus.")],
    optimize: Annotated[str, typer.Option(help="The level of the recorded modules: Oz, Os, O2 or O3.")] = "Oz",
    clang: Annotated[
        str | None, typer.Option(help="The clang to build and record with; the bundled one if left out.")
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="What module names are relative to; the current folder if left out.")
    ] = None,
    native: Annotated[
        bool,
        typer.Option(help="Record what mlgo-clang makes of the same build, for its recipes; only for this machine."),
    ] = False,
    probes: Annotated[
        bool, typer.Option(help="Also record what configure, CMake, Meson and the like compile to learn of it.")
    ] = False,
    back_ends: Annotated[
        Path | None, typer.Option(help="Also make a corpus of ThinLTO's back ends there, of links with -flto=thin.")
    ] = None,
    by_path: Annotated[
        bool, typer.Option(help="See compilers that the build calls by their path too, through a preloaded library.")
    ] = True,
) -> None:
    """Run a build and keep what it compiles as a corpus, at the level that is asked for.

    The build is the command after `--`. It finds the chosen clang under the name of every common compiler, and in CC
    and CXX. The bundled clang brings headers of libc and libc++ and sees no libraries of the system: choose another
    with --clang for a build that needs these. Exit status: the build's own if that is not 0, else 1 if something could
    not be recorded.
    """
    toolchain = find_toolchain(clang)
    if toolchain.bundled and not library_is_built():
        say(f"mlgo-gym: {MESSAGE}", err=True)
    build = record_build(
        command,
        output,
        optimize=optimize,
        toolchain=toolchain,
        root=root,
        probes=probes,
        native=native,
        by_path=by_path,
    )
    recording = build.recording
    console = NamingConsole(stderr=True, highlight=False)
    console.print(f"{output}: {len(recording.modules)} modules, {recording.lines} lines of source, -{optimize}")
    if recording.links:
        console.print(f"{recording.links} link{'s are' if recording.links > 1 else ' is'} in {LINKS_FILE}")
    if recording.replaced:
        console.print(f"{recording.replaced} objects were compiled again later; the last compile is kept")
    if recording.duplicates:
        console.print(
            f"{recording.duplicates} compiles gave the bitcode of another one and are no modules of their own"
        )
    for path, number in recording.by_path.items():
        gcc = ", which is gcc and no clang" if is_gcc(path) else ""
        console.print(
            f"{number} compiles called {path} by its path{gcc}: the build has its objects, and the modules are what "
            "the recording clang makes of the same arguments",
            markup=False,
        )
    if recording.left_out:
        console.print(f"seen and not recorded: {counted(recording.left_out)}", markup=False)
    print_failures(console, recording.failures)
    if build.status != 0:
        how = f"was ended by signal {-build.status}" if build.status < 0 else f"ended with status {build.status}"
        console.print(f"the build {how}; the corpus holds what it compiled until then")
    if back_ends is not None:
        extraction = record_back_ends(output, back_ends, toolchain)
        console.print(f"{back_ends}: {len(extraction.modules)} back ends, {len(extraction.skipped)} left out")
    raise typer.Exit(
        build.status if build.status > 0 else 128 - build.status if build.status else FAILED * bool(recording.failures)
    )


def print_failures(console: Console, failures: tuple[RecordFailure, ...]) -> None:
    """Name each source that is not in a corpus, with the first error of the compiler."""
    if not failures:
        return
    console.print(f"{len(failures)} compiles could not be recorded:")
    for failure in failures:
        console.print(f"  {failure.source}: {_first_error(failure.message)}", markup=False, soft_wrap=True)


def _first_error(message: str) -> str:
    lines = message.strip().splitlines() or ["the compiler said nothing"]
    return next((line for line in lines if "error" in line), lines[-1])
