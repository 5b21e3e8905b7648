"""`mlgo-gym corpus fetch`: make corpora of real code out of pinned source distributions."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from mlgo_gym.cli.output import FAILED, JsonOption, NamingConsole, print_json
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.cli.record import print_failures
from mlgo_gym.corpus.catalogue import dataset_names
from mlgo_gym.corpus.dataset import DatasetReport, fetch_dataset, read_report
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain


def fetch(
    names: Annotated[list[str] | None, typer.Argument(help="Datasets, or pypi:NAME==VERSION.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Fetch every dataset of the catalogue.")] = False,
    optimize: Annotated[str, typer.Option(help="The level to record at: Oz, Os, O2 or O3.")] = "Oz",
    jobs: Annotated[
        int | None, typer.Option(help="How many compilers run at once; all processors if left out.")
    ] = None,
    clang: Annotated[str | None, typer.Option(help="The clang to record with; the bundled one if left out.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make corpora of real code: fetch pinned sources, compile them, keep the bitcode in the cache.

    What is there already is not made again. Exit status 1: a dataset could not be made, or sources of one do not
    compile; the rest is kept.
    """
    wanted = [*(names or []), *(dataset_names() if every else [])]
    if not wanted:
        raise CorpusError(
            f"name a dataset, pypi:NAME==VERSION or --all; the catalogue has {', '.join(dataset_names())}"
        )
    toolchain = find_toolchain(clang)
    messages = NamingConsole(stderr=True, highlight=False)
    outcomes = [_fetch_one(name, optimize, toolchain, jobs) for name in dict.fromkeys(wanted)]
    reports = [outcome for outcome in outcomes if isinstance(outcome, DatasetReport)]
    problems = [outcome for outcome in outcomes if isinstance(outcome, CorpusError)]
    if as_json:
        print_json([asdict(report) for report in reports])
    else:
        NamingConsole(highlight=False).print(_table(reports, optimize))
    for report in reports:
        print_failures(messages, report.failures)
    for problem in problems:
        messages.print(f"not fetched: {problem}", markup=False, soft_wrap=True)
    raise typer.Exit(FAILED if problems or any(report.failures for report in reports) else 0)


def _fetch_one(name: str, optimize: str, toolchain: Toolchain, jobs: int | None) -> DatasetReport | CorpusError:
    with progress_over(None, name) as progress:

        def note(done: int, total: int) -> None:
            progress.at(done, total)

        try:
            folder = fetch_dataset(name, optimize=optimize, toolchain=toolchain, jobs=jobs, progress=note)
        except CorpusError as error:
            return error
        return read_report(name, folder)


def _table(reports: list[DatasetReport], optimize: str) -> Table:
    table = Table("dataset", "modules", "lines", "failures", "seconds", "folder", title=f"Datasets at -{optimize}")
    for column in table.columns[1:5]:
        column.justify = "right"
    table.columns[5].overflow = "fold"
    for report in reports:
        row = (report.modules, report.lines, len(report.failures), report.seconds, report.folder)
        table.add_row(report.name, *map(str, row))
    if len(reports) > 1:
        sums = (sum(report.modules for report in reports), sum(report.lines for report in reports))
        rest = (sum(len(report.failures) for report in reports), round(sum(report.seconds for report in reports), 1))
        table.add_section()
        table.add_row("all", *map(str, (*sums, *rest)), "")
    return table
