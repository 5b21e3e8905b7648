"""Tables of the corpus commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.markup import escape
from rich.table import Column, Table

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.inspection import Information, histogram
from mlgo_gym.corpus.opening import NamedCorpus
from mlgo_gym.llvm.toolchain import Toolchain

_BAR = 40


def list_table(entries: Sequence[NamedCorpus], optimize: str) -> Table:
    """Return a table of the corpora with a name."""
    folded = [Column(name, overflow="fold") for name in ("description", "licence")]
    modules = Column(f"modules at -{optimize}", justify="right")
    table = Table("corpus", *folded, modules, title="corpora", title_justify="left")
    for entry in entries:
        number = "not in the cache" if entry.modules is None else f"{entry.modules:,}"
        if entry.missing:
            number += f"; lacks {len(entry.missing):,}: fetch it again"
        table.add_row(escape(entry.name), escape(entry.summary), escape(entry.licence), number)
    return table


def missing_text(missing: Sequence[str], limit: int = 5) -> str:
    """Return the first missing parts of a dataset and the remedy."""
    more = f" and {len(missing) - limit:,} more" if len(missing) > limit else ""
    return f"{', '.join(missing[:limit])}{more}; fetch the dataset again"


def information_table(corpus: Corpus, information: Information, toolchain: Toolchain) -> Table:
    """Return a table of the statistics of a corpus."""
    rows = {} if corpus.path is None else {"path": str(corpus.path)}
    rows["modules"] = f"{information.modules:,}"
    if information.missing:
        rows["lacks"] = missing_text(information.missing)
    lines, counted = information.lines
    scope = "" if counted == information.modules else f" in {counted:,} modules with a known number"
    rows["source lines"] = f"{lines:,}{scope}" if counted else "unknown"
    rows["bitcode"] = f"{information.bitcode_bytes:,} bytes"
    attributes = (f"{information.functions[name]:,} {name}" for name in ("minsize", "optsize", "optnone"))
    rows["functions"] = f"{information.functions['functions']:,}: {', '.join(attributes)}"
    rows["level by attributes"] = _counts(information.levels)
    rows["languages"] = _counts(information.languages)
    rows["licences"] = _counts(information.licences)
    rows["recorded by"] = _counts(information.producers)
    rows["targets"] = _counts(information.targets)
    unreadable = (f"cannot read bitcode of {producer}: {why}" for producer, why in information.unreadable.items())
    rows[f"clang {toolchain.version_text}"] = "; ".join(unreadable) or "reads all bitcode"
    for task, counts in information.decisions.items():
        rows[f"{task} decisions"] = f"{sum(counts):,} in {sum(map(bool, counts)):,} modules"
    if information.problems:
        rows["problems"] = f"{len(information.problems):,}"
    columns = Column(), Column(overflow="fold")
    table = Table(*columns, title=f"corpus {escape(corpus.name)}", show_header=False, title_justify="left")
    for name, text in rows.items():
        table.add_row(name, escape(text))
    return table


def decision_table(task: str, counts: Sequence[int]) -> Table:
    """Return a histogram of the decisions of a task."""
    columns = [Column(name, justify="right") for name in ("decisions", "modules")]
    table = Table(*columns, "", title=f"{task} decisions per module", title_justify="left")
    bins = histogram(counts)
    largest = max((number for _, number in bins), default=0)
    for label, number in bins:
        table.add_row(label, f"{number:,}", "█" * -(-number * _BAR // largest) if number else "")
    return table


def module_table(corpus: Corpus) -> Table:
    """Return a table of the modules of a corpus and their sizes."""
    columns = Column("module", overflow="fold"), Column("bytes of bitcode", justify="right")
    table = Table(*columns, title="modules", title_justify="left")
    for name in corpus.names:
        table.add_row(escape(name), f"{corpus.size(name):,}")
    return table


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{word} ({number:,})" for word, number in counter.most_common()) or "none"
