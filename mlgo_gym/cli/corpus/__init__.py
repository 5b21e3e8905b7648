"""`mlgo-gym corpus`: commands that inspect, make and verify corpora."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from mlgo_gym.cli.corpus.build import combine, extract, import_command, make
from mlgo_gym.cli.corpus.datasets import catalogue, fetch
from mlgo_gym.cli.corpus.record import back_ends, prepare, record
from mlgo_gym.cli.corpus.tables import decision_table, information_table, list_table, module_table
from mlgo_gym.cli.options import ClangOption, CorpusArgument, JobsOption, TrustFlagsOption
from mlgo_gym.cli.output import FAILED, JsonOption, SafeConsole, echo, print_json, show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.inspection import DecisionCounter, describe, verify
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.opening import named_corpora, open_corpus
from mlgo_gym.corpus.targets import DEFAULT_LEVEL
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain

corpus_commands = typer.Typer(help="Inspect, make and verify corpora.", no_args_is_help=True)
for command in (extract, make, combine, record, fetch, prepare, catalogue, back_ends):
    corpus_commands.command()(command)
corpus_commands.command("import")(import_command)


@corpus_commands.command("list")
def list_command(
    *,
    clang: ClangOption = None,
    optimize: Annotated[str, typer.Option(help="Optimisation level to look for in the cache.")] = DEFAULT_LEVEL,
    as_json: JsonOption = False,
) -> None:
    """List the corpora with a name, and which of them are in the cache."""
    entries = named_corpora(find_toolchain(clang), optimize)
    if as_json:
        print_json([dataclasses.asdict(entry) for entry in entries])
    else:
        SafeConsole(highlight=False).print(list_table(entries, optimize))


@corpus_commands.command("info")
def info(
    corpus: CorpusArgument,
    *,
    clang: ClangOption = None,
    decisions: Annotated[
        bool, typer.Option(help="Count the decisions of every module; an unknown count costs a compile.")
    ] = False,
    modules: Annotated[bool, typer.Option(help="Also list the modules.")] = False,
    jobs: JobsOption = None,
    trust_flags: TrustFlagsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the modules, lines, languages, licences, and the optimisation level of the functions in a corpus."""
    toolchain, opened = _open(corpus, clang, trust_flags)
    tasks, count = _decision_counter(toolchain) if decisions else ((), None)
    with progress_over(len(opened), f"Reading {opened.name}") as advance:
        information = describe(opened, toolchain, count=count, tasks=tasks, jobs=jobs, progress=advance)
    if as_json:
        listed = {"names": list(opened.names)} if modules else {}
        print_json({"corpus": opened.name, **information.to_json(), **listed})
    else:
        console = SafeConsole(highlight=False)
        console.print(information_table(opened, information, toolchain))
        for task, counts in information.decisions.items():
            console.print(decision_table(task, counts))
        if modules:
            console.print(module_table(opened))
    for problem in information.problems:
        echo(problem, err=True)
    if information.problems:
        raise typer.Exit(FAILED)


@corpus_commands.command("verify")
def verify_command(
    corpus: CorpusArgument,
    *,
    clang: ClangOption = None,
    jobs: JobsOption = None,
    trust_flags: TrustFlagsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Verify digests, bitcode, and that clang accepts the flags; print one line per problem. Exit 1 if there is any."""
    toolchain, opened = _open(corpus, clang, trust_flags)
    with progress_over(len(opened), f"Verifying {opened.name}") as advance:
        problems = verify(opened, toolchain, jobs=jobs, progress=advance)
    valid = len(opened) - len({problem.module for problem in problems} & set(opened.names))
    lines = [f"{problem.module}: {problem.text}" for problem in problems]
    lines.append(f"{opened.name}: {valid} of {len(opened)} modules are valid with clang {toolchain.version_text}")
    data = {"modules": len(opened), "valid": valid, "problems": [dataclasses.asdict(problem) for problem in problems]}
    show(as_json, data, "\n".join(lines))
    if problems:
        raise typer.Exit(FAILED)


def _open(corpus: str, clang: str | None, trust_flags: bool) -> tuple[Toolchain, Corpus]:
    toolchain = find_toolchain(clang)
    opened = open_corpus(corpus, toolchain=toolchain, trust_flags=trust_flags)
    if opened.infinite:
        raise CorpusError(f"{opened.name} is infinite; give a number of programs, as in {opened.name}:100")
    return toolchain, opened


def _decision_counter(toolchain: Toolchain) -> tuple[tuple[str, ...], DecisionCounter]:
    """Return the names of the tasks, and a function that counts the decisions of a module for one of them.

    The first count of a module needs a compile.

    Raises:
        ToolchainError: The compiler does not support one of the tasks.
    """
    from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv, RegAllocPriorityEnv

    clang = "bundled" if toolchain.bundled else toolchain.command[0]
    made = [each(clang=clang) for each in (InlineEnv, RegAllocEvictEnv, RegAllocPriorityEnv)]
    environments = {environment.task.name: environment for environment in made}

    def count(module: Module, task: str) -> int:
        return sum(environments[task].decisions(module).values())

    return tuple(environments), count
