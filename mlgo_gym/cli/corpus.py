"""`mlgo-gym corpus`: records, fetches, lists, describes and verifies corpora."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from mlgo_gym.cli import options
from mlgo_gym.cli.interface import FAILED, aligned, echo, print_result
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.datasets.catalogue import RUST, catalogue_page, dataset_names, rust_names
from mlgo_gym.corpus.datasets.dataset import fetch_dataset, read_report
from mlgo_gym.corpus.driver import (
    DEFAULT_TARGET,
    NATIVE,
    PORTABLE,
    TARGETS,
    UNBUILT_LIBRARY,
    find_target,
    library_is_built,
    recording_target,
)
from mlgo_gym.corpus.folder import format_counts
from mlgo_gym.corpus.inspection import Information, describe, overlaps, verify
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.links import LINKS_FILE
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.corpus.recording.recorder import RecordFailure, Recording, is_gcc
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain

group = typer.Typer(name="corpus", help="Inspect, make and verify corpora.", no_args_is_help=True)

_MISSING = 5


@group.command()
def info(
    corpus: options.CorpusArgument,
    *,
    clang: options.Clang = None,
    jobs: options.Jobs = None,
    trust_flags: options.TrustFlags = False,
    as_json: options.Json = False,
) -> None:
    """Show the modules, lines, languages, licences, and the optimisation level of the functions in a corpus."""
    toolchain, opened = _open(corpus, clang, trust_flags)
    with progress_over(len(opened), f"Reading {opened.name}") as advance:
        information = describe(opened, toolchain, jobs=jobs, progress=advance)
    data = {"corpus": opened.name, **vars(information), "names": list(opened.names)}
    for problem in information.problems:
        echo(problem, err=True)
    text = f"corpus {opened.name}\n{aligned(_facts(opened, information, toolchain).items())}"
    print_result(as_json, data, text, information.problems)


def _facts(corpus: Corpus, information: Information, toolchain: Toolchain) -> dict[str, str]:
    facts = {} if corpus.path is None else {"path": str(corpus.path)}
    facts["modules"] = f"{information.modules:,}"
    if missing := information.missing:
        more = f" and {len(missing) - _MISSING:,} more" if len(missing) > _MISSING else ""
        facts["lacks"] = f"{', '.join(missing[:_MISSING])}{more}; fetch the dataset again"
    lines, counted = information.lines
    scope = "" if counted == information.modules else f" in {counted:,} modules with a known number"
    facts["source lines"] = f"{lines:,}{scope}" if counted else "unknown"
    facts["bitcode"] = f"{information.bitcode_bytes:,} bytes"
    attributes = (f"{information.functions[name]:,} {name}" for name in ("minsize", "optsize", "optnone"))
    facts["functions"] = f"{information.functions['functions']:,}: {', '.join(attributes)}"
    for title, counter in (
        ("level by attributes", information.levels),
        ("languages", information.languages),
        ("licences", information.licences),
        ("recorded by", information.producers),
        ("targets", information.targets),
    ):
        facts[title] = ", ".join(f"{word} ({number:,})" for word, number in counter.most_common()) or "none"
    unreadable = (f"cannot read bitcode of {producer}: {why}" for producer, why in information.unreadable.items())
    facts[f"clang {toolchain.version_text}"] = "; ".join(unreadable) or "reads all bitcode"
    return facts | ({"problems": f"{len(information.problems):,}"} if information.problems else {})


@group.command("verify")
def verify_command(
    corpus: options.CorpusArgument,
    *,
    clang: options.Clang = None,
    jobs: options.Jobs = None,
    trust_flags: options.TrustFlags = False,
    as_json: options.Json = False,
) -> None:
    """Verify digests, bitcode, and that clang accepts the flags; print one line per problem. Exit 1 if there is any."""
    toolchain, opened = _open(corpus, clang, trust_flags)
    with progress_over(len(opened), f"Verifying {opened.name}") as advance:
        problems = verify(opened, toolchain, jobs=jobs, progress=advance)
    valid = len(opened) - len({problem.module for problem in problems} & set(opened.names))
    lines = [f"{problem.module}: {problem.text}" for problem in problems]
    lines.append(f"{opened.name}: {valid} of {len(opened)} modules are valid with clang {toolchain.version_text}")
    data = {"modules": len(opened), "valid": valid, "problems": [asdict(problem) for problem in problems]}
    print_result(as_json, data, "\n".join(lines), problems)


@group.command()
def overlap(
    corpus: options.CorpusArgument,
    *,
    clang: options.Clang = None,
    jobs: options.Jobs = None,
    trust_flags: options.TrustFlags = False,
    as_json: options.Json = False,
) -> None:
    """Show which projects contain equal functions, and so belong in one part of a split. Exit 1 if a compile fails."""
    toolchain, opened = _open(corpus, clang, trust_flags)
    with progress_over(len(opened), f"Compiling {opened.name}") as advance:
        pairs, problems = overlaps(opened, toolchain, jobs=jobs, progress=advance)
    for problem in problems:
        echo(f"{problem.module}: {problem.text}", err=True)
    rows: list[tuple[object, ...]] = [("projects", "equal functions", "bytes", "of the first", "of the second")]
    for pair in pairs:
        shares = (f"{pair.bytes / size:.2%}" for size in (pair.first_bytes, pair.second_bytes))
        rows.append((f"{pair.first}, {pair.second}", f"{pair.functions:,}", f"{pair.bytes:,}", *shares))
    text = aligned(rows) if pairs else "no two projects contain equal functions of 64 bytes or more"
    print_result(as_json, [asdict(pair) for pair in pairs], text, problems)


def _open(corpus: str, clang: str | None, trust_flags: bool) -> tuple[Toolchain, Corpus]:
    toolchain = find_toolchain(clang)
    opened = open_corpus(corpus, toolchain=toolchain, trust_flags=trust_flags)
    return toolchain, opened


@group.command()
def fetch(
    names: Annotated[list[str] | None, Argument(help="Datasets, pypi:NAME==VERSION, or rust for all crates.")] = None,
    *,
    every: Annotated[bool, Option("--all", help="Fetch every dataset of the catalogue.")] = False,
    optimize: options.Optimize = "Oz",
    target: Annotated[str, Option(help=f"Target of the modules: {', '.join(TARGETS)}.")] = DEFAULT_TARGET,
    jobs: options.Jobs = None,
    clang: options.Clang = None,
    as_json: options.Json = False,
) -> None:
    """Fetch pinned sources, compile them, and keep the bitcode in the cache as corpora.

    Complete datasets in the cache are not compiled again. Exit status 1: a dataset could not be made, or one of its
    sources does not compile; the rest is kept.
    """
    requested = [dataset for name in names or [] for dataset in (rust_names() if name == RUST else [name])]
    requested += dataset_names() if every else []
    if not requested:
        raise CorpusError(
            f"expected pypi:NAME==VERSION, --all, {RUST} or a dataset of {', '.join(dataset_names())}, got none"
        )
    toolchain = find_toolchain(clang)
    reports, problems = [], []
    for name in dict.fromkeys(requested):
        try:
            with progress_over(None, name) as progress:
                folder = fetch_dataset(
                    name, optimize=optimize, target=target, toolchain=toolchain, jobs=jobs, progress=progress.at
                )
            reports.append(read_report(name, folder))
        except CorpusError as error:  # noqa: PERF203 - one iteration is a dataset
            problems.append(error)
    rows: list[tuple[object, ...]] = [("dataset", "modules", "lines", "failures", "seconds", "folder")]
    for report in reports:
        numbers = report.modules, report.lines, len(report.failures), report.seconds
        rows.append((report.name, *numbers, report.folder))
    for report in reports:
        print_failures(report.failures)
    for problem in problems:
        echo(f"not fetched: {problem}", err=True)
    failed = problems or any(report.failures for report in reports)
    print_result(as_json, [asdict(report) for report in reports], aligned(rows) if reports else "", failed)


@group.command()
def catalogue() -> None:
    """Print all datasets as Markdown: sources, licences, languages and numbers of modules."""
    echo(catalogue_page())


@group.command()
def record(
    command: Annotated[list[str], Argument(help="The build, after --: make -j4, cmake --build build, …")],
    *,
    output: Annotated[Path, Option(help="Folder of the new corpus.")],
    optimize: options.Optimize = "Oz",
    clang: options.Clang = None,
    root: Annotated[Path | None, Option(help="Folder that names are relative to. Default: this one.")] = None,
    target: Annotated[
        str | None,
        Option(
            help=f"'native': the headers, libraries and linker of this machine, as for mlgo-clang and its recipes. "
            f"'portable': those of the bundled clang. For a cross build {', '.join(TARGETS)}. Default: native if this "
            "machine has C headers and a linker."
        ),
    ] = None,
    intercept_paths: Annotated[bool, Option(help="Also record compilers that the build calls by path.")] = True,
) -> None:
    """Run a build and record what it compiles as a corpus at the chosen level.

    The build is the command after `--`. It finds the chosen clang under the name of every common compiler, and in CC
    and CXX. rustc compiles the crates of cargo itself, and each becomes a module too. Exit status: the build's if it is
    not 0, else 1 if a source could not be recorded.
    """
    toolchain = find_toolchain(clang)
    target = target or recording_target()
    if target not in (PORTABLE, NATIVE):
        find_target(target)
    if toolchain.bundled and target == PORTABLE and not library_is_built():
        echo(f"mlgo-gym: {UNBUILT_LIBRARY}", err=True)
    recording = record_build(
        command,
        output,
        optimize=optimize,
        toolchain=toolchain,
        root=root,
        target=None if target == PORTABLE else target,
        intercept_paths=intercept_paths,
    )
    counts = f"{len(recording.modules)} modules, {recording.lines} lines of source"
    echo(f"{output}: {counts}, -{optimize}, target {target}", err=True)
    for line in _details(recording):
        echo(line, err=True)
    print_failures(recording.failures)
    if (status := recording.status) != 0:
        end = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        remedy = "; --target portable has the headers of libc and libc++" if target == NATIVE else ""
        echo(f"the build {end}; the corpus contains its compiles until then{remedy}", err=True)
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
