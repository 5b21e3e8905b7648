"""`mlgo-gym corpus`: look at corpora, make them, and check them."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from mlgo_gym.cli.back_ends import back_ends
from mlgo_gym.cli.catalogue import catalogue
from mlgo_gym.cli.compiler import ClangOption
from mlgo_gym.cli.corpus_build import combine, extract, import_command, make
from mlgo_gym.cli.corpus_tables import decision_table, information_table, list_table, module_table
from mlgo_gym.cli.decisions import decision_counter
from mlgo_gym.cli.fetch import fetch
from mlgo_gym.cli.output import FAILED, JsonOption, NamingConsole, print_json, say, show
from mlgo_gym.cli.prepare import prepare
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.cli.record import record
from mlgo_gym.cli.trust import TrustOption
from mlgo_gym.corpus.corpus import DEFAULT_LEVEL, Corpus
from mlgo_gym.corpus.information import describe
from mlgo_gym.corpus.names import named_corpora
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.verify import verify
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain

corpus_commands = typer.Typer(help="Look at corpora, make them, and check them.", no_args_is_help=True)
for command in (extract, make, combine, record, fetch, prepare, catalogue):
    corpus_commands.command()(command)
corpus_commands.command("import")(import_command)
corpus_commands.command("back-ends")(back_ends)

CorpusArgument = Annotated[
    str,
    typer.Argument(help="builtin, a dataset, pypi:NAME==VERSION, csmith:SEED:COUNT, a path, or several with commas."),
]
JobsOption = Annotated[int | None, typer.Option(min=1, help="How many modules at a time. Default: all processors.")]


@corpus_commands.command("list")
def list_command(
    *,
    clang: ClangOption = None,
    optimize: Annotated[str, typer.Option(help="The level of which to say whether it is on disk.")] = DEFAULT_LEVEL,
    as_json: JsonOption = False,
) -> None:
    """List the corpora that can be had by name, and which are on disk already."""
    entries = named_corpora(find_toolchain(clang), optimize)
    if as_json:
        print_json([dataclasses.asdict(entry) for entry in entries])
    else:
        NamingConsole(highlight=False).print(list_table(entries, optimize))


@corpus_commands.command("info")
def info(
    corpus: CorpusArgument,
    *,
    clang: ClangOption = None,
    decisions: Annotated[
        bool, typer.Option(help="Count the decisions of every module; each count not known yet costs a compile.")
    ] = False,
    modules: Annotated[bool, typer.Option(help="Also list the modules.")] = False,
    jobs: JobsOption = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what a corpus holds: modules, lines, languages, licences, and the level its functions really have."""
    toolchain, opened = _open(corpus, clang, trust)
    tasks, count = decision_counter(toolchain) if decisions else ((), None)
    with progress_over(len(opened), f"Looking at {opened.name}") as advance:
        information = describe(opened, toolchain, count=count, tasks=tasks, jobs=jobs, progress=advance)
    if as_json:
        listed = {"names": list(opened.names)} if modules else {}
        print_json({"corpus": opened.name, **information.to_json(), **listed})
    else:
        console = NamingConsole(highlight=False)
        console.print(information_table(opened, information, toolchain))
        for task, counts in information.decisions.items():
            console.print(decision_table(task, counts))
        if modules:
            console.print(module_table(opened))
    for problem in information.problems:
        say(problem, err=True)
    if information.problems:
        raise typer.Exit(FAILED)


@corpus_commands.command("verify")
def verify_command(
    corpus: CorpusArgument,
    *,
    clang: ClangOption = None,
    jobs: JobsOption = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Check digests, bitcode, and that the chosen clang understands the flags; one line per problem, exit 1 if any."""
    toolchain, opened = _open(corpus, clang, trust)
    with progress_over(len(opened), f"Verifying {opened.name}") as advance:
        problems = verify(opened, toolchain, jobs=jobs, progress=advance)
    wrong = {problem.module for problem in problems} & set(opened.names)
    lines = [f"{problem.module}: {problem.text}" for problem in problems]
    whole = len(opened) - len(wrong)
    lines.append(
        f"{opened.name}: {whole} of {len(opened)} modules are whole and understood by clang {toolchain.version_text}"
    )
    data = {"modules": len(opened), "whole": whole, "problems": [dataclasses.asdict(problem) for problem in problems]}
    show(as_json, data, "\n".join(lines))
    if problems:
        raise typer.Exit(FAILED)


def _open(corpus: str, clang: str | None, trust: bool) -> tuple[Toolchain, Corpus]:
    toolchain = find_toolchain(clang)
    opened = open_corpus(corpus, toolchain=toolchain, trust=trust)
    if opened.endless:
        raise CorpusError(f"{opened.name} has no end; give a number of programs, as in {opened.name}:100")
    return toolchain, opened
