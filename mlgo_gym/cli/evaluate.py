"""`mlgo-gym evaluate`, `report`, `compare` and `explain`: policies on the modules of a corpus."""

import json
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from mlgo_gym.cache import write_atomically
from mlgo_gym.cli import options
from mlgo_gym.cli.interface import echo, exit_with, print_result
from mlgo_gym.cli.options import environment_arguments
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.cli.terminal import INTERRUPTED
from mlgo_gym.corpus.parts import Part
from mlgo_gym.episode.options import with_compile_options
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation import Evaluation
from mlgo_gym.evaluation.comparison import compare as compare_runs
from mlgo_gym.evaluation.comparison import on_common_modules
from mlgo_gym.evaluation.explanation import explain_module
from mlgo_gym.evaluation.explanation.report import as_page, as_text
from mlgo_gym.evaluation.linking import LinkResult, ProgramResult, linked_table, programs_tables
from mlgo_gym.evaluation.report import all_tables, as_data, notes, page, short_tables
from mlgo_gym.evaluation.result import as_submission, load_results
from mlgo_gym.evaluation.table import PAGE_COLUMNS, Table
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.loading import with_callee_features
from mlgo_gym.scheduling import Execution


def evaluate(
    environment: options.EnvironmentArgument,
    *,
    corpus: options.Corpus = "builtin",
    policy: Annotated[
        list[str] | None,
        Option(
            help="Policy, or several separated by commas; repeatable. All text after clang: is flags.",
            show_default="default",
        ),
    ] = None,
    split: Annotated[Part | None, Option(help="Part of the corpus: whole projects, chosen by their names.")] = None,
    jobs: options.Workers = None,
    ray: options.Ray = None,
    output: Annotated[Path | None, Option(help="Folder for the results; the same command resumes from it.")] = None,
    clang: options.Clang = None,
    settings: options.Settings = None,
    trust_flags: options.TrustFlags = False,
    link_view: options.LinkView = False,
    seed: options.Seed = 0,
    metric: options.Metric = None,
    limit: options.Limit = None,
    link: Annotated[bool, Option("--link", help="Also repeat the links of the recorded build.")] = False,
    run: Annotated[bool, Option("--run", help="Also run the programs of the corpus.")] = False,
    as_json: options.Json = False,
) -> None:
    """Run policies on the modules of a corpus, and compare them with plain clang.

    Policies: default, random; the bundled rule last-call; rule:FILE for a rule of your own; for tasks that they fit
    never, always, threshold:NUMBER, ratio:NUMBER, first_legal, never_evict, size_order; clang:FLAGS for plain clang
    with other flags, as in clang:-mllvm,-inline-threshold=20; models: mlp:FILE (safetensors), onnx:FILE, tflite:DIR
    (or the file); your own code, as package.module:Name or path/to/file.py:Name.

    --link needs a corpus that `mlgo-gym corpus record` made of a build, and
    --run one with a programs.toml, such as builtin or programs, and
    valgrind or a hardware counter.

    `mlgo-gym validate` reproduces the results by their recorded actions.
    `mlgo-gym trace` writes every decision of a policy as LLVM training logs,
    which LLVM's tools read.

    Exit status 1: an episode, a link or a program failed.
    """
    evaluation = Evaluation(
        environment,
        policies=split_policies(policy or ["default"]),
        corpus=corpus,
        split=split,
        output=output,
        env_kwargs=environment_arguments(clang, settings, trust_flags, link_view, metric=metric),
        seed=seed,
        limit=limit,
    )
    linked: list[LinkResult] = []
    programs: list[ProgramResult] = []
    with evaluation:
        interrupted = False
        try:
            with (
                progress_over(evaluation.schedule.unfinished, "Episodes") as advance,
                closing(evaluation.run(Execution(jobs, ray))) as episodes,
            ):
                for _ in episodes:
                    advance()
        except KeyboardInterrupt:
            interrupted = True
        result = evaluation.result
        if link and not interrupted:
            linked = evaluation.link(trust_flags=trust_flags)
        if run and not interrupted:
            programs = evaluation.run_programs(trust_flags=trust_flags)
    if as_json:
        parts = {"links": list(map(asdict, linked)), "programs": list(map(asdict, programs))}
        print_result(True, as_data(result) | {name: rows for name, rows in parts.items() if rows}, "")
    else:
        failures = [f"{row.output}, {row.policy}: {row.error}" for row in linked if row.error]
        failures += [f"{row.program}, {row.policy}: {row.error}" for row in programs if row.error]
        print_tables(short_tables(result), notes(result))
        for table in [*([linked_table(linked)] if linked else []), *(programs_tables(programs) if programs else [])]:
            echo("")
            print_tables([table])
        print_tables([], list(dict.fromkeys(failures)))
    if interrupted:
        remedy = "the same command continues" if output else "--output makes an evaluation resumable"
        echo(f"mlgo-gym: interrupted with {evaluation.schedule.unfinished} episodes left; {remedy}", err=True)
        raise typer.Exit(INTERRUPTED)
    exit_with(result.failures or any(row.error for row in linked) or any(row.error for row in programs))


def split_policies(texts: Iterable[str]) -> list[str]:
    """Return the policies in lists separated by commas, each once; `clang:` takes the rest of its list as flags."""
    policies: list[str] = []
    for text in texts:
        names, clang, flags = text.partition("clang:")
        policies += [name.strip() for name in names.split(",") if name.strip()]
        if clang:
            policies.append(clang + flags)
    return list(dict.fromkeys(policies))


def print_tables(tables: Sequence[Table], lines: Sequence[str] = ()) -> None:
    """Print tables as wide as the terminal, with an empty line each, and lines below."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PAGE_COLUMNS
    for table in tables:
        echo(f"{table.as_text(width)}\n")
    for line in lines:
        echo(line)


def report(
    runs: Annotated[list[Path], Argument(help="Outputs of `evaluate`, or submissions.")],
    *,
    html: Annotated[Path | None, Option(help="File for an HTML page with tables and figures.")] = None,
    submission: Annotated[
        Path | None, Option(help="JSON file for the decisions and sizes of one evaluation, for `validate`.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print the tables of evaluations, with intervals, wins and losses.

    --html writes one page without scripts and references: tables, figures, and
    the commands that reproduce results. The page needs the extra `report`.
    Evaluations may be unfinished: policies, and evaluations of the same modules,
    are compared on the modules that all of them finished. With --json, several
    evaluations are one object by their names.
    """
    evaluations = load_results(runs)
    if submission is not None:
        if len(runs) != 1:
            raise MlgoError(f"expected one evaluation for --submission, got {len(runs)}; name one")
        (result,) = evaluations.values()
        write_atomically(submission, f"{json.dumps(as_submission(result), separators=(',', ':'))}\n".encode())
        echo(f"wrote {submission}", err=True)
    evaluations = on_common_modules(evaluations)
    data = {name: as_data(result) for name, result in evaluations.items()}
    for number, (name, result) in enumerate({} if as_json else evaluations.items()):
        if len(evaluations) > 1:
            echo(f"{chr(10) * bool(number)}== {name} ==\n")
        print_tables(all_tables(result), notes(result))
    if html is not None:
        write_atomically(html, page(evaluations).encode())
        echo(f"wrote {html}", err=True)
    print_result(as_json, next(iter(data.values())) if len(data) == 1 else data, "")


def compare(
    runs: Annotated[list[Path], Argument(help="Outputs of `evaluate`; the first is the reference.")],
    *,
    as_json: options.Json = False,
) -> None:
    """Compare the first evaluation with each of the others.

    Policies of equal names are compared module by module, with 95 % intervals over projects and modules. If two
    evaluations share no policy, each is compared with each. Evaluations with other modules, flags or compilers are
    refused; the message has the first difference.
    """
    comparison = compare_runs(load_results(runs))
    if not as_json:
        print_tables(comparison.tables(), comparison.notes)
    print_result(as_json, comparison.to_json(), "")


def explain(
    module: Annotated[str, Argument(help="Module of the corpus, or a .bc file.")],
    *,
    policy: Annotated[list[str] | None, Option(help="Policy; repeat for the second. Default: default.")] = None,
    corpus: options.Corpus = "builtin",
    flags: Annotated[str | None, Option(help="Flags of a .bc file, as one argument: '-Os -fPIC'.")] = None,
    measured: Annotated[
        int, Option("--show", help="Maximum number of calls to measure, one compile each.", min=0)
    ] = 10,
    html: Annotated[Path | None, Option(help="File for an HTML page.")] = None,
    seed: options.Seed = 0,
    clang: options.Clang = None,
    settings: options.Settings = None,
    trust_flags: options.TrustFlags = False,
    link_view: options.LinkView = False,
    as_json: options.Json = False,
) -> None:
    """Explain why two policies make different code of a module.

    Shows the calls with different answers, their decisive features and their
    bytes, by credit and measured, and the functions that changed.

        mlgo-gym explain lib/compress/zstd_ldm.o --corpus zstd@Os
            --policy threshold:5 --policy last-call --html ldm.html
    """
    first, second = _pair(split_policies(policy or ()))
    arguments = environment_arguments(clang, settings, trust_flags, link_view)
    arguments = {"corpus": corpus, **with_callee_features(arguments, (first, second))}
    if module.endswith(".bc") and Path(module).is_file():
        arguments["corpus"] = str(Path(module).resolve())
    if flags is not None:
        arguments = with_compile_options(arguments, flags=shlex.split(flags))
    with closing(make_environment("mlgo/Inline-v0", arguments)) as env, progress_over(None, "Steps") as progress:

        def note(done: int, steps: int, result: str) -> None:
            progress.at(done, steps, result=result)

        name = env.corpus.names[0] if arguments["corpus"] != corpus else module
        explanation = explain_module(env, name, (first, second), measured=measured, seed=seed, note=note)
    if html is not None:
        write_atomically(html, as_page(explanation, shlex.join(["mlgo-gym", *sys.argv[1:]])).encode())
    written = "" if html is None else f"\n\nwritten: {html}"
    print_result(as_json, explanation.to_json(), as_text(explanation) + written)


def _pair(policies: list[str]) -> tuple[str, str]:
    pair = policies if len(policies) != 1 else ["default", *policies]
    if len(pair) != 2 or pair[0] == pair[1]:
        raise MlgoError(
            f"expected two different policies, got {', '.join(policies) or 'none'}; use --policy twice, or once to "
            "compare with default"
        )
    return pair[0], pair[1]
