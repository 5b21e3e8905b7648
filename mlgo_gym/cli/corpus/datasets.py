"""`mlgo-gym corpus fetch` and `catalogue`: datasets of pinned source distributions, and their page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from mlgo_gym.cli.corpus.record import print_failures
from mlgo_gym.cli.options import ClangOption, JobsOption, LevelOption
from mlgo_gym.cli.output import FAILED, JsonOption, SafeConsole, echo, print_json
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.corpus.datasets.catalogue import RUST, dataset_names, find_dataset, rust_names
from mlgo_gym.corpus.datasets.dataset import DatasetReport, dataset_folder, fetch_dataset, missing_parts, read_report
from mlgo_gym.corpus.datasets.pins import catalogue_page, write_pins
from mlgo_gym.corpus.targets import DEFAULT_TARGET, LEVELS, TARGETS
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain
from mlgo_gym.storage.cache import write_atomically


def fetch(
    names: Annotated[
        list[str] | None, typer.Argument(help="Datasets, pypi:NAME==VERSION, or rust for all crates.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Fetch every dataset of the catalogue.")] = False,
    optimize: LevelOption = "Oz",
    target: Annotated[str, typer.Option(help=f"Target of the modules: {', '.join(TARGETS)}.")] = DEFAULT_TARGET,
    jobs: JobsOption = None,
    clang: ClangOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch pinned sources, compile them, and keep the bitcode in the cache as corpora.

    Complete datasets in the cache are not compiled again. Exit status 1: a dataset could not be made, or one of its
    sources does not compile; the rest is kept.
    """
    requested = [each for name in names or [] for each in (rust_names() if name == RUST else [name])]
    requested += dataset_names() if every else []
    if not requested:
        raise CorpusError(
            f"expected pypi:NAME==VERSION, --all, {RUST} or a dataset of {', '.join(dataset_names())}, got none"
        )
    toolchain = find_toolchain(clang)
    messages = SafeConsole(stderr=True, highlight=False)
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
    if as_json:
        print_json([asdict(report) for report in reports])
    elif reports:
        SafeConsole(highlight=False).print(_table(reports, optimize))
    for report in reports:
        print_failures(messages, report.failures)
    for problem in problems:
        messages.print(f"not fetched: {problem}", markup=False, soft_wrap=True)
    raise typer.Exit(FAILED if problems or any(report.failures for report in reports) else 0)


def _table(reports: list[DatasetReport], optimize: str) -> Table:
    numbers = [(report.modules, report.lines, len(report.failures), report.seconds) for report in reports]
    columns = [Column(name, justify="right") for name in ("modules", "lines", "failures", "seconds")]
    table = Table("dataset", *columns, Column("folder", overflow="fold"), title=f"Datasets at -{optimize}")
    for report, row in zip(reports, numbers, strict=True):
        table.add_row(report.name, *map(str, row), str(report.folder))
    if len(reports) > 1:
        table.add_section()
        table.add_row("all", *(f"{round(sum(column), 1)}" for column in zip(*numbers, strict=True)), "")
    return table


def catalogue(
    *,
    output: Annotated[Path, typer.Option(help="Path of the page.")] = Path("docs/reference/datasets.md"),
    clang: ClangOption = None,
    pins: Annotated[
        bool, typer.Option(help="Write the pinned content of each dataset instead, from the datasets in the cache.")
    ] = False,
) -> None:
    """Write the page of all datasets: sources, licences, languages and numbers of modules."""
    if pins:
        _write_pins(find_toolchain(clang))
        return
    write_atomically(output, catalogue_page().encode())
    echo(f"written: {output}")


def _write_pins(toolchain: Toolchain) -> None:
    for dataset in map(find_dataset, dataset_names()):
        folders = {level: dataset_folder(dataset, level, toolchain) for level in LEVELS}
        complete = {level: folder for level, folder in folders.items() if not missing_parts(dataset, folder)}
        written = write_pins(dataset, complete, toolchain.version_text) if complete else None
        echo(f"written: {written}" if written else f"not in the cache: {dataset.name}", err=not written)
