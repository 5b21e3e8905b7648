"""`mlgo-gym leaderboard`: a folder of submissions, each reproduced before it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.options import TrustFlagsOption
from mlgo_gym.cli.output import FAILED, JsonOption, echo, print_json, show
from mlgo_gym.cli.report import FormatOption, print_tables
from mlgo_gym.cli.reproduce import RecordedClangOption
from mlgo_gym.errors import NotReproducedError

leaderboard_commands = typer.Typer(help="Submissions, each reproduced before it counts.", no_args_is_help=True)

BoardArgument = Annotated[Path, typer.Argument(help="Folder of submissions.")]
SampleOption = Annotated[
    int | None,
    typer.Option(min=1, help="Modules to reproduce, drawn by the digest of the results.", show_default="all"),
]


@leaderboard_commands.command()
def add(
    run: Annotated[Path, typer.Argument(help="Output of `evaluate`.")],
    *,
    board: Annotated[Path, typer.Option(help="Folder of submissions.")],
    name: Annotated[str, typer.Option(help="Name of the submission.")],
    policy: Annotated[
        str | None, typer.Option(help="Policy of the run.", show_default="the only one except default")
    ] = None,
    authors: Annotated[str, typer.Option(help="Names of the authors.")] = "",
    method: Annotated[str, typer.Option(help="One-line description of the method.")] = "",
    budget: Annotated[str, typer.Option(help="Training budget: compiles or labels, hours, machine.")] = "",
    policy_file: Annotated[
        Path | None,
        typer.Option(
            help="File of the policy: its digest and its training digests are kept.",
            show_default="the file of a bundled policy",
        ),
    ] = None,
    training_digests: Annotated[
        Path | None, typer.Option(help="Output of `leaderboard digests` for the training modules.")
    ] = None,
    partial: Annotated[bool, typer.Option(help="Accept missing modules of the protocol; they are flagged.")] = False,
    sample: SampleOption = None,
    clang: RecordedClangOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reproduce results of the benchmark protocol, and add them to a board.

    Every compile is reproduced by its recorded actions with the recorded
    version of the compiler; the policy is not needed. If a size differs, the
    module is named and nothing is added.

    Exit status 1: a size was not reproduced.
    """
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.evaluation.result import load_result
    from mlgo_gym.leaderboard.board import add as add_submission
    from mlgo_gym.leaderboard.standings import as_data, remarks
    from mlgo_gym.leaderboard.training_digests import read_digests

    modules = len({episode.module for episode in load_result(run).episodes})
    with progress_over(min(modules, sample or modules), "Modules") as advance:
        try:
            added = add_submission(
                run,
                board,
                name,
                policy=policy,
                authors=authors,
                method=method,
                budget=budget,
                policy_file=policy_file,
                training=None if training_digests is None else read_digests(training_digests),
                partial=partial,
                sample=sample,
                clang=clang,
                progress=lambda _: advance(),
            )
        except NotReproducedError as error:
            echo(str(error), err=True)
            raise typer.Exit(FAILED) from None
    data = as_data(added)
    lines = [f"added {name}: reproduced {data['verified']} of {data['of']} modules", *remarks([added])]
    show(as_json, data, "\n".join(lines))


@leaderboard_commands.command("show")
def show_board(
    board: BoardArgument,
    *,
    form: FormatOption = "text",
    as_json: JsonOption = False,
) -> None:
    """Print the tables of a board, one per level and compiler."""
    from mlgo_gym.leaderboard.board import load_board
    from mlgo_gym.leaderboard.standings import as_data, remarks, standings

    submissions = load_board(board)
    if as_json:
        print_json([as_data(each) for each in submissions])
    else:
        print_tables(standings(submissions, narrow=form == "text"), remarks(submissions), form)


@leaderboard_commands.command()
def verify(
    board: BoardArgument,
    names: Annotated[list[str] | None, typer.Argument(help="Names of submissions.", show_default="all")] = None,
    *,
    sample: SampleOption = None,
    clang: RecordedClangOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reproduce submissions with the recorded version of the compiler.

    Exit status 1: a size was not reproduced; the module is named.
    """
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.leaderboard.board import RESULTS, load_board
    from mlgo_gym.leaderboard.manifest import VERIFICATION, write_record
    from mlgo_gym.leaderboard.verification import reproduce

    data, lines = [], []
    for each in load_board(board, names or ()):
        name, total = each.manifest.name, len(each.result.episodes) - len(each.result.failures)
        with progress_over(min(total, sample or total), name) as advance:
            reproduction = reproduce(each.folder / RESULTS, clang=clang, sample=sample, progress=lambda _: advance())
        for problem in reproduction.problems:
            echo(f"{name}: {problem.module}: {problem.problem}", err=True)
        found = reproduction.verification
        if reproduction.problems:
            (each.folder / VERIFICATION).unlink(missing_ok=True)
        elif each.verification is None or found.modules >= each.verification.modules:
            write_record(each.folder / VERIFICATION, found)
        reproduced = found.modules - len(reproduction.problems)
        lines.append(f"{name}: reproduced {reproduced} of {found.modules} modules")
        different = [{"module": problem.module, "problem": problem.problem} for problem in reproduction.problems]
        data.append({"name": name, "modules": found.modules, "reproduced": reproduced, "different": different})
    show(as_json, data, "\n".join(lines))
    if any(each["different"] for each in data):
        raise typer.Exit(FAILED)


@leaderboard_commands.command()
def digests(
    corpus: Annotated[str, typer.Argument(help="Corpus that a policy was trained on, such as zstd@Os:train.")],
    *,
    clang: RecordedClangOption = None,
    trust_flags: TrustFlagsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the digest of each module of a corpus, for --training-digests."""
    from mlgo_gym.corpus.modules.training_digests import digest_lines
    from mlgo_gym.corpus.opening import open_corpus
    from mlgo_gym.llvm.toolchain import find_toolchain

    lines = digest_lines(open_corpus(corpus, toolchain=find_toolchain(clang), trust_flags=trust_flags))
    show(as_json, [line.partition(" ")[0] for line in lines], "\n".join(lines))
