"""`mlgo-gym evaluate` and `mlgo-gym demo`: run policies on the modules of a corpus."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.options import CompilerOptions, ExecutionOptions, option
from mlgo_gym.cli.output import echo, exit_with, show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.cli.report import print_tables
from mlgo_gym.cli.terminal import INTERRUPTED
from mlgo_gym.corpus.corpus import Part
from mlgo_gym.deploy.plugin import build_link_plugins
from mlgo_gym.errors import UnreachableError
from mlgo_gym.evaluation import Evaluation
from mlgo_gym.evaluation.evaluation import ENVS
from mlgo_gym.evaluation.linking import LinkResult, ProgramResult, link_modes, linked_table, programs_tables
from mlgo_gym.evaluation.report import as_data, notes, short_tables
from mlgo_gym.evaluation.result import with_smallest
from mlgo_gym.scheduling import Execution
from mlgo_gym.storage.temporary_folders import temporary_folder

DEMO_POLICIES = ("default", "threshold:0", "inline-os", "always")
DEMO_MODULES = 8

OutputOption = Annotated[Path | None, option("Folder for the results; the same command resumes from it.")]


def evaluate(
    environment: str,
    *,
    corpus: str = "builtin",
    policy: Annotated[
        list[str] | None,
        option(
            "Policy, or several separated by commas; repeatable. All text after clang: is flags.",
            show_default="default",
        ),
    ] = None,
    split: Annotated[Part | None, option("Part of the modules, decided by their names.")] = None,
    execution: ExecutionOptions,
    envs: Annotated[int, option("Concurrent episodes per process.", min=1)] = ENVS,
    output: OutputOption = None,
    compiler: CompilerOptions,
    seed: int = 0,
    metric: str | None = None,
    limit: int | None = None,
    link: Annotated[bool, option("Also repeat the links of the recorded build.", "--link")] = False,
    link_as: Annotated[
        list[str] | None,
        option(
            "How to link, of recorded, gc, icf, thin and full, separated by commas; implies --link.",
            show_default="recorded",
        ),
    ] = None,
    run: Annotated[bool, option("Also run the programs of the corpus.", "--run")] = False,
    smallest: bool = False,
    as_json: bool = False,
) -> None:
    """Run policies on the modules of a corpus, and compare them with plain clang.

    Policies: default, random; for tasks that they fit never, always, threshold:NUMBER, first_legal, never_evict,
    size_order; bundled policies such as inline-oz; clang:FLAGS for plain clang with other flags, as in
    clang:-mllvm,-inline-threshold=20; models: mlp:FILE (safetensors), onnx:FILE, tflite:DIR (or the
    file); your own code, as package.module:Name or path/to/file.py:Name.

    --link needs a corpus that `mlgo-gym corpus record` made of a build. With
    --link-as gc the linker drops unused functions; icf folds equal functions
    too (lld), and thin and full optimise at link time. An installed clang with
    lld and llvm-config also runs the policy in the link, and in both.

    --run needs one with a programs.toml, such as builtin or programs, and
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
        env_kwargs=compiler.arguments(metric=metric),
        seed=seed,
        limit=limit,
    )
    linked: list[LinkResult] = []
    programs: list[ProgramResult] = []
    with evaluation:
        interrupted = run_with_progress(evaluation, execution.execution(), envs)
        result = with_smallest(evaluation.result) if smallest and not interrupted else evaluation.result
        modes = [mode for text in link_as or [] for mode in text.split(",") if mode]
        if (link or modes) and not interrupted:
            linked = _link(evaluation, modes, trust_flags=compiler.trust_flags)
        if run and not interrupted:
            programs = evaluation.run_programs(trust_flags=compiler.trust_flags)
    if as_json:
        parts = {"links": list(map(asdict, linked)), "programs": list(map(asdict, programs))}
        show(True, as_data(result) | {name: rows for name, rows in parts.items() if rows}, "")
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
        echo(f"mlgo-gym: interrupted with {evaluation.remaining} episodes left; {remedy}", err=True)
        raise typer.Exit(INTERRUPTED)
    exit_with(result.failures or any(row.error for row in linked) or any(row.error for row in programs))


def _link(evaluation: Evaluation, modes: list[str], *, trust_flags: bool) -> list[LinkResult]:
    """Link the recorded build again; with link time optimisation, also with the policies in the linker."""
    plugins: dict[str, Path] = {}
    with temporary_folder() as folder:
        if any(mode.lto for mode in link_modes(modes)):
            policies = [spec for spec in evaluation.evaluated.policies if spec != "default"]
            plugins, missing = build_link_plugins(policies, evaluation.evaluated.env.toolchain, folder)
            if missing:
                echo(f"mlgo-gym: {missing}", err=True)
        return evaluation.link(trust_flags=trust_flags, modes=modes, plugins=plugins)


def run_with_progress(evaluation: Evaluation, execution: Execution, envs: int = ENVS) -> bool:
    """Run the episodes of an evaluation and show their progress; return whether Ctrl-C interrupted them."""
    try:
        with (
            progress_over(evaluation.remaining, "Episodes") as advance,
            closing(evaluation.run(execution, envs=envs)) as episodes,
        ):
            for _ in episodes:
                advance()
    except KeyboardInterrupt:
        return True
    return False


def split_policies(texts: Iterable[str]) -> list[str]:
    """Return the policies in lists separated by commas, each once; `clang:` takes the rest of its list as flags."""
    policies: list[str] = []
    for text in texts:
        names, clang, flags = text.partition("clang:")
        policies += [name.strip() for name in names.split(",") if name.strip()]
        if clang:
            policies.append(clang + flags)
    return list(dict.fromkeys(policies))


def demo(
    *,
    output: OutputOption = None,
) -> None:
    """Compare clang, a rule, a bundled policy and always inlining.

    They compile eight modules of Zstandard at -Os, in about a minute on two cores; the first run downloads the sources.
    Without a network, packaged modules take their place.

    Exit status 1: a compile failed.
    """

    def prepare(corpus: str) -> Evaluation:
        echo(f"clang alone and with {len(DEMO_POLICIES)} policies on {DEMO_MODULES} modules of {corpus}", err=True)
        folder = None if output is None else output / corpus
        return Evaluation("mlgo/Inline-v0", policies=DEMO_POLICIES, corpus=corpus, output=folder, limit=DEMO_MODULES)

    try:
        evaluation = prepare("zstd@Os")
    except UnreachableError as error:
        echo(f"mlgo-gym: {error}", err=True)
        evaluation = prepare("builtin@Os")
    with evaluation:
        if run_with_progress(evaluation, Execution(jobs=2)):
            raise typer.Exit(INTERRUPTED)
        result = evaluation.result
    print_tables(short_tables(result), notes(result))
    best = min(result.summaries(), key=lambda summary: summary.changes["text"].total)
    change = best.changes["text"]
    saved = f"{change.baseline - change.value:,.0f} of {change.baseline:,.0f} bytes of code"
    echo(f"\nsaved:  {best.policy} saves {saved}, {-100 * change.total:.1f} %, against clang alone")
    echo("train:  python examples/sb3_ppo.py        # in a clone, after pip install '.[learn]'")
    echo("build:  MLGO_POLICY=inline-os make CC=mlgo-clang CXX=mlgo-clang++ CFLAGS=-Os CXXFLAGS=-Os")
    exit_with(result.failures)
