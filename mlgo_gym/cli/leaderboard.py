"""`mlgo-gym leaderboard`: a folder of submissions, each made again before it counts."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.output import FAILED, JsonOption, NamingConsole, say, show
from mlgo_gym.cli.trust import TrustOption
from mlgo_gym.errors import NotReproducedError

leaderboard_commands = typer.Typer(help="Results of many, each made again before it counts.", no_args_is_help=True)

BoardOption = Annotated[Path, typer.Option(help="The folder of submissions.")]
SampleOption = Annotated[
    int | None,
    typer.Option(min=1, help="Make so many modules again, drawn by the digest of the results.", show_default="all"),
]
ClangOption = Annotated[
    str | None, typer.Option(help="The clang to use, of the version that is stated.", show_default="bundled")
]


class Format(str, Enum):
    """How tables are written."""

    TEXT = "text"
    MARKDOWN = "markdown"


@leaderboard_commands.command()
def add(
    run: Annotated[Path, typer.Argument(help="The --output of `evaluate`.")],
    *,
    board: BoardOption,
    name: Annotated[str, typer.Option(help="What the submission is called.")],
    policy: Annotated[
        str | None, typer.Option(help="Which policy of the run.", show_default="the only one beside default")
    ] = None,
    authors: Annotated[str, typer.Option(help="Who made it.")] = "",
    method: Annotated[str, typer.Option(help="How, in a line.")] = "",
    budget: Annotated[str, typer.Option(help="What training took: compiles or labels, hours, machine.")] = "",
    policy_file: Annotated[
        Path | None,
        typer.Option(
            help="The policy's file: its digest is kept, and what it says it was trained on.",
            show_default="that of a policy in the box",
        ),
    ] = None,
    training_digests: Annotated[
        Path | None, typer.Option(help="What `leaderboard digests` printed for what was trained on.")
    ] = None,
    partial: Annotated[bool, typer.Option(help="Modules of the protocol may be missing; this is shown.")] = False,
    sample: SampleOption = None,
    clang: ClangOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take results of the benchmark's protocol into a board.

    Every compile is made again by its recorded decisions, with the compiler that
    the results state; the policy is not needed. Where a size does not come out,
    the module is named and nothing is added.

    Exit status 1: a size did not come out again.
    """
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.evaluation.result import load_result
    from mlgo_gym.leaderboard.board import About
    from mlgo_gym.leaderboard.board import add as take_in
    from mlgo_gym.leaderboard.standings import as_data, remarks
    from mlgo_gym.leaderboard.training_digests import read_digests

    told = None if training_digests is None else read_digests(training_digests)
    about = About(name, authors, method, budget, policy_file, told)
    modules = len({episode.module for episode in load_result(run).episodes})
    with progress_over(min(modules, sample or modules), "Modules") as advance:
        try:
            added = take_in(
                run,
                board,
                about,
                policy=policy,
                partial=partial,
                sample=sample,
                clang=clang,
                progress=lambda _: advance(),
            )
        except NotReproducedError as error:
            say(str(error), err=True)
            raise typer.Exit(FAILED) from None
    data = as_data(added)
    lines = [f"added {name}: {data['verified']} of {data['of']} modules came out as recorded", *remarks([added])]
    show(as_json, data, "\n".join(lines))


@leaderboard_commands.command("show")
def show_board(
    board: Annotated[Path, typer.Argument(help="The folder of submissions.")],
    *,
    form: Annotated[Format, typer.Option("--format", help="How the tables are written.")] = Format.TEXT,
    as_json: JsonOption = False,
) -> None:
    """Print the tables of a board, one for each level and compiler."""

    from mlgo_gym.cli.tables import print_table
    from mlgo_gym.leaderboard.board import load_board
    from mlgo_gym.leaderboard.standings import as_data, remarks, standings
    from mlgo_gym.reporting.paper import as_markdown

    submissions = load_board(board)
    if as_json or form is Format.MARKDOWN:
        text = "" if as_json else as_markdown(standings(submissions, narrow=False), remarks(submissions))
        show(as_json, [as_data(each) for each in submissions], text)
        return
    console = NamingConsole(highlight=False, markup=False)
    for table in standings(submissions):
        print_table(console, table)
    for line in remarks(submissions):
        console.print(line, soft_wrap=True)


@leaderboard_commands.command()
def verify(
    board: Annotated[Path, typer.Argument(help="The folder of submissions.")],
    names: Annotated[list[str] | None, typer.Argument(help="Which ones.", show_default="all")] = None,
    *,
    sample: SampleOption = None,
    clang: ClangOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make submissions again, with the compiler that each states.

    Exit status 1: a size did not come out; the module is named.
    """
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.leaderboard.board import RESULTS, load_board
    from mlgo_gym.leaderboard.manifest import VERIFICATION, write_record
    from mlgo_gym.leaderboard.verification import make_again

    data, lines = [], []
    for each in load_board(board, names or ()):
        name, total = each.manifest.name, len(each.result.episodes) - len(each.result.failures)
        with progress_over(min(total, sample or total), name) as advance:
            remade = make_again(each.folder / RESULTS, clang=clang, sample=sample, progress=lambda _: advance())
        for problem in remade.problems:
            say(f"{name}: {problem.module}: {problem.problem}", err=True)
        found = remade.verification
        if remade.problems:
            (each.folder / VERIFICATION).unlink(missing_ok=True)
        elif each.verification is None or found.modules >= each.verification.modules:
            write_record(each.folder / VERIFICATION, found)
        same = found.modules - len(remade.problems)
        lines.append(f"{name}: {same} of {found.modules} modules came out as recorded")
        different = [{"module": problem.module, "problem": problem.problem} for problem in remade.problems]
        data.append({"name": name, "modules": found.modules, "as_recorded": same, "different": different})
    show(as_json, data, "\n".join(lines))
    if any(each["different"] for each in data):
        raise typer.Exit(FAILED)


@leaderboard_commands.command()
def digests(
    corpus: Annotated[str, typer.Argument(help="What a policy was trained on, such as zstd@Os:train.")],
    *,
    clang: ClangOption = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print a digest of each module of a corpus, for --training-digests."""
    from mlgo_gym.corpus.digests import digest_lines
    from mlgo_gym.corpus.opening import open_corpus
    from mlgo_gym.llvm.toolchain import find_toolchain

    lines = digest_lines(open_corpus(corpus, toolchain=find_toolchain(clang), trust=trust))
    show(as_json, [line.partition(" ")[0] for line in lines], "\n".join(lines))
