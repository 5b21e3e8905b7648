"""`mlgo-gym corpus extract`, `import`, `record` and `prepare`: where corpora come from.

The first has options of LLVM's `extract_ir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.options import argument, option
from mlgo_gym.cli.output import FAILED, echo, exit_with, show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.corpus.driver import NATIVE, TARGETS, UNBUILT_LIBRARY, build_libraries, find_target, library_is_built
from mlgo_gym.corpus.folder import CorpusReport, format_counts
from mlgo_gym.corpus.importing import extract_corpus, import_parquet, read_object_list
from mlgo_gym.corpus.recording.links import LINKS_FILE
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.corpus.recording.recorder import RecordFailure, Recording, is_gcc
from mlgo_gym.llvm.toolchain import find_toolchain

OutputOption = Annotated[Path, option("Folder of the corpus.")]


def extract(
    *,
    source: Annotated[Path, option("compile_commands.json, or a folder with object files.", "--input")],
    output_dir: OutputOption,
    trust_flags: Annotated[bool, option("Also extract modules with flags that do more than shape code.")] = False,
    as_json: bool = False,
) -> None:
    """Extract a corpus from a build with embedded bitcode (-Xclang -fembed-bitcode=all). Exit 1 if any is skipped."""
    listed = read_object_list(source)
    with progress_over(len(listed.objects), "Extracting") as advance:
        report = extract_corpus(listed, output_dir, trust_flags=trust_flags, progress=advance)
    _show(as_json, output_dir, report)
    exit_with(report.skipped)


def import_command(
    *,
    parquet: Annotated[list[Path], option("Parquet file with a column 'content'; repeatable.")],
    output_dir: OutputOption,
    as_json: bool = False,
) -> None:
    """Import a collection of bitcode in Parquet files, such as ComPile. Exit 1 if any row is skipped."""
    with progress_over(None, "Importing") as advance:
        report = import_parquet(parquet, output_dir, progress=advance)
    _show(as_json, output_dir, report)
    exit_with(report.skipped)


def _show(as_json: bool, output: Path, report: CorpusReport) -> None:
    data = {
        "output": output,
        "modules": len(report.modules),
        "skipped": dict(report.skipped),
        "reasons": report.reasons,
    }
    duplicates = f", {report.duplicates} duplicates" if report.duplicates else ""
    summary = f"{output}: {len(report.modules)} modules{duplicates}, {len(report.skipped)} skipped"
    summary += f": {format_counts(report.reasons)}" if report.skipped else ""
    show(as_json, data, summary)
    for name, reason in report.skipped:
        echo(f"skipped {name}: {reason}", err=True)


def record(
    command: Annotated[list[str], argument("The build, after --: make -j4, cmake --build build, …")],
    *,
    output: Annotated[Path, option("Folder of the new corpus.")],
    optimize: str = "Oz",
    clang: str | None = None,
    root: Annotated[Path | None, option("Folder that names are relative to. Default: this one.")] = None,
    target: Annotated[
        str | None,
        option(
            f"Target of a cross build: {', '.join(TARGETS)}. With 'native' the corpus has the result of "
            "mlgo-clang, for its recipes; valid on this machine only. Default: that of the build."
        ),
    ] = None,
    intercept_paths: Annotated[bool, option("Also record compilers that the build calls by path.")] = True,
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
        echo(f"mlgo-gym: {UNBUILT_LIBRARY}", err=True)
    recording = record_build(
        command,
        output,
        optimize=optimize,
        toolchain=toolchain,
        root=root,
        target=target,
        intercept_paths=intercept_paths,
    )
    echo(f"{output}: {len(recording.modules)} modules, {recording.lines} lines of source, -{optimize}", err=True)
    for line in _details(recording):
        echo(line, err=True)
    print_failures(recording.failures)
    if (status := recording.status) != 0:
        end = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        echo(f"the build {end}; the corpus contains its compiles until then", err=True)
    raise typer.Exit((status if status >= 0 else 128 - status) or FAILED * bool(recording.failures))


def _details(recording: Recording) -> list[str]:
    lines = []
    if recording.links:
        lines.append(f"{recording.links} link{'s are' if recording.links > 1 else ' is'} in {LINKS_FILE}")
    if recording.replaced:
        lines.append(f"{recording.replaced} objects were compiled more than once; the last compile is kept")
    if recording.duplicates:
        lines.append(f"{recording.duplicates} compiles gave the bitcode of another one and are not modules")
    for path, number in recording.compiler_paths.items():
        gcc = ", which is gcc and not clang" if is_gcc(path) else ""
        lines.append(
            f"{number} compiles called {path} by path{gcc}: the build has its objects, and the modules come from the "
            "recording clang"
        )
    if recording.skipped:
        lines.append(f"skipped: {format_counts(recording.skipped)}")
    return lines


def print_failures(failures: Sequence[RecordFailure]) -> None:
    """Print each source that could not be recorded on standard error, with the first error of the compiler."""
    if failures:
        echo(f"{len(failures)} compiles could not be recorded:", err=True)
    for failure in failures:
        lines = failure.message.strip().splitlines() or ["the compiler printed nothing"]
        error = next((line for line in lines if "error" in line), lines[-1])
        echo(f"  {failure.source}: {error}", err=True)


def prepare() -> None:
    """Build the C and C++ libraries of the bundled compiler, which otherwise the first links do.

    This takes minutes of CPU time once per machine. Recordings with an installed clang do not need it.
    """
    for description in build_libraries(find_toolchain("bundled")):
        echo(description, err=True)
    echo("the libraries of the bundled compiler are built")
