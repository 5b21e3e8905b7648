"""What the corpus commands print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.information import Information, histogram
from mlgo_gym.corpus.names import NamedCorpus
from mlgo_gym.llvm.toolchain import Toolchain

_BAR = 40


def list_table(entries: Sequence[NamedCorpus], optimize: str) -> Table:
    """Return the corpora that can be had by name."""
    table = Table("corpus", "what it is", "licence", f"modules at -{optimize}", title="corpora", title_justify="left")
    table.columns[1].overflow = table.columns[2].overflow = "fold"
    table.columns[3].justify = "right"
    for entry in entries:
        modules = "not made yet" if entry.modules is None else f"{entry.modules:,}"
        if entry.lacks:
            modules += f"; lacks {len(entry.lacks):,}: fetch it again"
        table.add_row(escape(entry.name), escape(entry.summary), escape(entry.licence), modules)
    return table


def lacks_text(lacks: Sequence[str], most: int = 5) -> str:
    """Return what a dataset lacks, the first of it by name, and what to do."""
    more = f" and {len(lacks) - most:,} more" if len(lacks) > most else ""
    return f"{', '.join(lacks[:most])}{more}; fetch the dataset again"


def information_table(corpus: Corpus, information: Information, toolchain: Toolchain) -> Table:
    """Return what is in a corpus, a line for each fact."""
    table = Table(title=f"corpus {escape(corpus.name)}", show_header=False, title_justify="left")
    table.add_column()
    table.add_column(overflow="fold")
    if corpus.path is not None:
        table.add_row("path", escape(str(corpus.path)))
    table.add_row("modules", f"{information.modules:,}")
    if information.lacks:
        table.add_row("lacks", escape(lacks_text(information.lacks)))
    lines, counted = information.lines
    known = "" if counted == information.modules else f" in the {counted:,} modules where they are known"
    table.add_row("source lines", f"{lines:,}{known}" if counted else "unknown")
    table.add_row("bitcode", f"{information.bitcode_bytes:,} bytes")
    functions = information.functions
    table.add_row(
        "functions",
        f"{functions['functions']:,}, of which {functions['minsize']:,} minsize, {functions['optsize']:,} optsize, "
        f"{functions['optnone']:,} optnone",
    )
    table.add_row("level by attributes", counter_text(information.levels))
    table.add_row("languages", counter_text(information.languages))
    table.add_row("licences", counter_text(information.licences))
    table.add_row("recorded by", counter_text(information.producers))
    table.add_row("targets", counter_text(information.targets))
    table.add_row(f"clang {toolchain.version_text}", escape(_readable_text(information)))
    for task, counts in information.decisions.items():
        table.add_row(f"{task} decisions", f"{sum(counts):,} in {sum(map(bool, counts)):,} modules")
    if information.problems:
        table.add_row("problems", f"{len(information.problems):,}")
    return table


def decision_table(task: str, counts: Sequence[int]) -> Table:
    """Return the histogram of the decisions of a task."""
    table = Table(title=f"{task} decisions per module", title_justify="left")
    table.add_column("decisions", justify="right")
    table.add_column("modules", justify="right")
    table.add_column("")
    bins = histogram(counts)
    largest = max((number for _, number in bins), default=0)
    for label, number in bins:
        table.add_row(label, f"{number:,}", "█" * -(-number * _BAR // largest) if number else "")
    return table


def module_table(corpus: Corpus) -> Table:
    """Return the modules of a corpus and their sizes."""
    table = Table(title="modules", title_justify="left")
    table.add_column("module", overflow="fold")
    table.add_column("bytes of bitcode", justify="right")
    for name in corpus.names:
        table.add_row(escape(name), f"{corpus.size(name):,}")
    return table


def counter_text(counter: Counter[str]) -> str:
    """Return counted words in one line, the most frequent first."""
    return escape(", ".join(f"{word} ({number:,})" for word, number in counter.most_common())) or "none"


def _readable_text(information: Information) -> str:
    if not information.unreadable:
        return "reads it"
    return "; ".join(f"cannot read what {producer} wrote: {why}" for producer, why in information.unreadable.items())
