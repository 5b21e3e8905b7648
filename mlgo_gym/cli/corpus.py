"""`mlgo-gym corpus`: lists, describes, verifies and fetches corpora."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from mlgo_gym.cli.corpus_sources import print_failures
from mlgo_gym.cli.options import argument, option
from mlgo_gym.cli.output import aligned, echo, exit_with, show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.datasets.catalogue import (
    RUST,
    catalogue_page,
    dataset_names,
    find_dataset,
    rust_names,
    write_pins,
)
from mlgo_gym.corpus.datasets.dataset import dataset_folder, fetch_dataset, missing_parts, read_report
from mlgo_gym.corpus.driver import DEFAULT_LEVEL, DEFAULT_TARGET, LEVELS, TARGETS
from mlgo_gym.corpus.inspection import Information, describe, verify
from mlgo_gym.corpus.opening import named_corpora, open_corpus
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain

_MISSING = 5


def list_command(*, clang: str | None = None, optimize: str = DEFAULT_LEVEL, as_json: bool = False) -> None:
    """List the corpora with a name, and which of them are in the cache."""
    entries = named_corpora(find_toolchain(clang), optimize)
    rows: list[tuple[object, ...]] = [("corpus", f"modules at -{optimize}", "description", "licence")]
    for entry in entries:
        number = "not in the cache" if entry.modules is None else f"{entry.modules:,}"
        number += f"; lacks {len(entry.missing):,}: fetch it again" if entry.missing else ""
        rows.append((entry.name, number, entry.summary, entry.licence))
    show(as_json, [asdict(entry) for entry in entries], aligned(rows))


def info(
    corpus: str,
    *,
    clang: str | None = None,
    jobs: int | None = None,
    trust_flags: bool = False,
    as_json: bool = False,
) -> None:
    """Show the modules, lines, languages, licences, and the optimisation level of the functions in a corpus."""
    toolchain, opened = _open(corpus, clang, trust_flags)
    with progress_over(len(opened), f"Reading {opened.name}") as advance:
        information = describe(opened, toolchain, jobs=jobs, progress=advance)
    data = {"corpus": opened.name, **vars(information), "names": list(opened.names)}
    show(as_json, data, f"corpus {opened.name}\n{aligned(_facts(opened, information, toolchain).items())}")
    for problem in information.problems:
        echo(problem, err=True)
    exit_with(information.problems)


def _facts(corpus: Corpus, information: Information, toolchain: Toolchain) -> dict[str, str]:
    """Return the statistics of a corpus by their names."""
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


def verify_command(
    corpus: str,
    *,
    clang: str | None = None,
    jobs: int | None = None,
    trust_flags: bool = False,
    as_json: bool = False,
) -> None:
    """Verify digests, bitcode, and that clang accepts the flags; print one line per problem. Exit 1 if there is any."""
    toolchain, opened = _open(corpus, clang, trust_flags)
    with progress_over(len(opened), f"Verifying {opened.name}") as advance:
        problems = verify(opened, toolchain, jobs=jobs, progress=advance)
    valid = len(opened) - len({problem.module for problem in problems} & set(opened.names))
    lines = [f"{problem.module}: {problem.text}" for problem in problems]
    lines.append(f"{opened.name}: {valid} of {len(opened)} modules are valid with clang {toolchain.version_text}")
    data = {"modules": len(opened), "valid": valid, "problems": [asdict(problem) for problem in problems]}
    show(as_json, data, "\n".join(lines))
    exit_with(problems)


def _open(corpus: str, clang: str | None, trust_flags: bool) -> tuple[Toolchain, Corpus]:
    toolchain = find_toolchain(clang)
    opened = open_corpus(corpus, toolchain=toolchain, trust_flags=trust_flags)
    return toolchain, opened


def fetch(
    names: Annotated[list[str] | None, argument("Datasets, pypi:NAME==VERSION, or rust for all crates.")] = None,
    *,
    every: Annotated[bool, option("Fetch every dataset of the catalogue.", "--all")] = False,
    optimize: str = "Oz",
    target: Annotated[str, option(f"Target of the modules: {', '.join(TARGETS)}.")] = DEFAULT_TARGET,
    jobs: int | None = None,
    clang: str | None = None,
    as_json: bool = False,
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
    show(as_json, [asdict(report) for report in reports], aligned(rows) if reports else "")
    for report in reports:
        print_failures(report.failures)
    for problem in problems:
        echo(f"not fetched: {problem}", err=True)
    exit_with(problems or any(report.failures for report in reports))


def catalogue(
    *,
    clang: str | None = None,
    pins: Annotated[bool, option("Write the pins of the datasets in the cache instead.")] = False,
) -> None:
    """Print all datasets as Markdown: sources, licences, languages and numbers of modules."""
    if not pins:
        echo(catalogue_page())
        return
    toolchain = find_toolchain(clang)
    for dataset in map(find_dataset, dataset_names()):
        folders = {level: dataset_folder(dataset, level, toolchain) for level in LEVELS}
        complete = {level: folder for level, folder in folders.items() if not missing_parts(dataset, folder)}
        written = write_pins(dataset, complete, toolchain.version_text) if complete else None
        echo(f"written: {written}" if written else f"not in the cache: {dataset.name}", err=not written)
