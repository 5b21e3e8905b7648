"""`mlgo-gym corpus extract`, `make`, `combine`, `import`, `record` and `prepare`: where corpora come from.

The first three have the options of LLVM's mlgo-utils.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.options import argument, option
from mlgo_gym.cli.output import FAILED, echo, exit_with, show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.corpus.driver import NATIVE
from mlgo_gym.corpus.folder import CorpusReport, format_counts
from mlgo_gym.corpus.importing import combine_corpora, import_parquet, make_corpus
from mlgo_gym.corpus.recording.extract import extract_corpus
from mlgo_gym.corpus.recording.libraries import MESSAGE, build_libraries, is_gcc, library_is_built
from mlgo_gym.corpus.recording.links import LINKS_FILE
from mlgo_gym.corpus.recording.object_list import from_local_thinlto, read_object_list
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.corpus.recording.recorder import RecordFailure, Recording
from mlgo_gym.corpus.targets import TARGETS, find_target
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import find_toolchain

OutputOption = Annotated[Path, option("Folder of the corpus.")]
VerbosityOption = Annotated[int, option("0: list skipped inputs; -1: count them; -2: print nothing.", min=-2, max=1)]


def extract(
    *,
    output_dir: OutputOption,
    source: Annotated[
        Path | None, option("compile_commands.json, a linker parameter file, aquery output, or a folder.", "--input")
    ] = None,
    input_type: Annotated[str, option("json, params, directory or bazel_aquery.")] = "json",
    num_workers: Annotated[int | None, option("Number of threads. Default: one per CPU.", min=1)] = None,
    llvm_objcopy_path: Annotated[str | None, option("llvm-objcopy, for other objects than ELF.")] = None,
    obj_base_dir: Annotated[Path | None, option("Folder of relative object paths. Default: this one.")] = None,
    cmd_filter: Annotated[str | None, option("Regular expression that a flag of a module must match.")] = None,
    thinlto_build: Annotated[str | None, option("distributed or local.")] = None,
    cmd_section_name: Annotated[str, option("Section with the flags; for Mach-O __LLVM,__cmdline.")] = ".llvmcmd",
    bitcode_section_name: Annotated[str, option("Section of the bitcode; for Mach-O __LLVM,__bitcode.")] = ".llvmbc",
    trust_flags: Annotated[bool, option("Also extract modules with flags that do more than shape code.")] = False,
    verbosity: VerbosityOption = 0,
    as_json: bool = False,
) -> None:
    """Extract a corpus from a build with embedded bitcode (-Xclang -fembed-bitcode=all). Exit 1 if any is skipped."""
    if thinlto_build == "local":
        if source is not None:
            raise CorpusError("expected no --input with a local ThinLTO build, which is below --obj_base_dir; omit it")
        listed = from_local_thinlto(obj_base_dir or Path.cwd())
    elif source is None:
        raise CorpusError("expected --input or --thinlto_build=local, got neither")
    else:
        listed = read_object_list(source, input_type, obj_base_dir)
    with progress_over(len(listed.objects), "Extracting") as advance:
        report = extract_corpus(
            listed,
            output_dir,
            thinlto_build=thinlto_build,
            cmd_filter=cmd_filter,
            llvm_objcopy=llvm_objcopy_path,
            cmd_section=cmd_section_name,
            bitcode_section=bitcode_section_name,
            jobs=num_workers,
            trust_flags=trust_flags,
            progress=advance,
        )
    excluded = f", {report.excluded} excluded by the filter" if report.excluded else ""
    _show(as_json, output_dir, report, verbosity, excluded)
    exit_with(report.skipped)


def make(
    *,
    input_dir: Annotated[Path, option("Folder with .bc files.")],
    output_dir: OutputOption,
    default_args: Annotated[str, option("Flags of every module, as one argument.")] = "",
    verbosity: VerbosityOption = 0,
    as_json: bool = False,
) -> None:
    """Make a corpus from bitcode files. Exit 1 if any is skipped."""
    try:
        arguments = shlex.split(default_args)
    except ValueError as error:
        raise CorpusError(f"expected shell words in --default_args, got {default_args!r}: {error}") from error
    with progress_over(None, "Copying") as advance:
        report = make_corpus(input_dir, output_dir, default_args=arguments, progress=advance)
    _show(as_json, output_dir, report, verbosity)
    exit_with(report.skipped)


def combine(
    *,
    root_dir: Annotated[Path, option("Folder whose subfolders are corpora.")],
    verbosity: VerbosityOption = 0,
    as_json: bool = False,
) -> None:
    """Describe the corpora in a folder as one corpus, without copying."""
    _show(as_json, root_dir, CorpusReport(combine_corpora(root_dir)), verbosity)


def import_command(
    *,
    parquet: Annotated[list[Path], option("Parquet file with a column 'content'; repeatable.")],
    output_dir: OutputOption,
    language: Annotated[list[str] | None, option("Language to import; repeatable. Default: all.")] = None,
    limit: Annotated[int | None, option("Maximum number of modules.", min=1)] = None,
    verbosity: VerbosityOption = 0,
    as_json: bool = False,
) -> None:
    """Import a collection of bitcode in Parquet files, such as ComPile. Exit 1 if any row is skipped."""
    with progress_over(None, "Importing") as advance:
        report = import_parquet(parquet, output_dir, languages=language or (), limit=limit, progress=advance)
    duplicates = f", {report.duplicates} duplicates" if report.duplicates else ""
    _show(as_json, output_dir, report, verbosity, duplicates)
    exit_with(report.skipped)


def _show(as_json: bool, output: Path, report: CorpusReport, verbosity: int, details: str = "") -> None:
    data = {
        "output": output,
        "modules": len(report.modules),
        "skipped": dict(report.skipped),
        "reasons": report.reasons,
    }
    summary = f"{output}: {len(report.modules)} modules{details}, {len(report.skipped)} skipped"
    summary += f": {format_counts(report.reasons)}" if report.skipped else ""
    show(as_json, data, "" if verbosity == -2 else summary)
    if verbosity > -1:
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
    probes: Annotated[bool, option("Also record feature tests of configure, CMake, Meson and the like.")] = False,
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
    started = last = time.monotonic()
    current = ""
    for description in (*build_libraries(find_toolchain("bundled")), ""):
        if current:
            echo(f"{current}: {time.monotonic() - last:.1f} s", err=True)
        current, last = description, time.monotonic()
    echo(f"the libraries of the bundled compiler are built; {time.monotonic() - started:.1f} s")
