"""The page of the catalogue: what each dataset is, and what it took to make it, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mlgo_gym.corpus.catalogue import Dataset, dataset_names, find_dataset
from mlgo_gym.corpus.dataset import REPORT_FILE, DatasetReport, dataset_folder, read_report
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain

BEGIN = "<!-- datasets: made by `mlgo-gym corpus catalogue` -->"
"""What stands before the totals in a file that quotes them."""

END = "<!-- datasets: end -->"
"""What stands after them."""

_GENERATED = "<!-- made by `mlgo-gym corpus catalogue` from the catalogue, and from what was made of it -->"
_COLUMNS = ("dataset", "what it is", "package", "licence", "language")
_MEASURED = ("modules", "lines", "failures", "seconds", "processor seconds")


def made_reports(toolchain: Toolchain, optimize: str) -> list[DatasetReport]:
    """Return how each dataset of the catalogue was made with a clang at a level, in the order of their names.

    Raises:
        CorpusError: some are not in the cache.
    """
    folders = {name: dataset_folder(find_dataset(name), optimize, toolchain) for name in dataset_names()}
    missing = [name for name, folder in folders.items() if not (folder / REPORT_FILE).exists()]
    if missing:
        raise CorpusError(
            f"the page tells of every dataset, and {len(missing)} of {len(folders)} are not made at -{optimize}; run "
            f"`mlgo-gym corpus fetch --optimize {optimize} {' '.join(missing)}`"
        )
    return [read_report(name, folder) for name, folder in folders.items()]


def page(reports: Sequence[DatasetReport], toolchain: Toolchain, optimize: str) -> str:
    """Return the page: totals, a row for each dataset, and what of them does not compile."""
    jobs = " or ".join(str(number) for number in sorted({report.jobs or 1 for report in reports}))
    introduction = (
        f"`mlgo-gym corpus fetch --all` makes them: {totals(reports)}. Sources come from the package index by their "
        f"digest and are compiled at -{optimize} by clang {toolchain.version_text}; `corpus fetch NAME --optimize Os` "
        'makes another level, `corpus="NAME@Os"`. Lines are those of the compiled sources, without headers. Processor '
        f"seconds are what the compilers used; seconds are wall time with {jobs} compilers at a time and without the "
        "download, which other work on the machine lengthened."
    )
    parts = [_GENERATED, "# Datasets", introduction, _table(reports)]
    failures = [f"- {report.name}: `{failure.source}`" for report in reports for failure in report.failures]
    if failures:
        parts += ["What does not compile, and is left out:", "\n".join(failures)]
    return "\n\n".join(parts) + "\n"


def totals(reports: Sequence[DatasetReport]) -> str:
    """Return in a few words how much all datasets hold and what they cost."""
    modules = sum(report.modules for report in reports)
    in_cxx = sum(report.languages.get("C++", 0) for report in reports)
    minutes = sum(report.processor_seconds for report in reports) / 60
    return (
        f"{len(reports)} datasets, {modules:,} modules ({modules - in_cxx:,} C, {in_cxx:,} C++), "
        f"{sum(report.lines for report in reports):,} lines, in {minutes:.0f} minutes of processor time"
    )


def with_totals(text: str, reports: Sequence[DatasetReport]) -> str:
    """Return a text with the totals between its marks `BEGIN` and `END`.

    Raises:
        CorpusError: it has no such marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise CorpusError(f"a text with {BEGIN} and {END} was wanted, and one of these marks is missing; put them in")
    return f"{before}{begin}\n{totals(reports)}\n{end}{after}"


def static_cells(dataset: Dataset) -> tuple[str, ...]:
    """Return the cells of a dataset's row that the catalogue alone decides: name, what it is, package, licence."""
    pinned = f"{dataset.archive.package} {dataset.archive.version}"
    return dataset.name, dataset.summary, pinned, dataset.licence


def _table(reports: Sequence[DatasetReport]) -> str:
    rows = [_row((*_COLUMNS, *_MEASURED)), "|---" * len(_COLUMNS) + "|---:" * len(_MEASURED) + "|"]
    for report in reports:
        languages = " and ".join(sorted(report.languages))
        rows.append(_row((*static_cells(find_dataset(report.name)), languages, *_measured([report]))))
    rows.append(_row(("all", "", "", "", "", *_measured(reports))))
    return "\n".join(rows)


def _measured(reports: Sequence[DatasetReport]) -> tuple[str, ...]:
    return (
        f"{sum(report.modules for report in reports):,}",
        f"{sum(report.lines for report in reports):,}",
        f"{sum(len(report.failures) for report in reports)}",
        f"{sum(report.seconds for report in reports):,.1f}",
        f"{sum(report.processor_seconds for report in reports):,.1f}",
    )


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
