"""`mlgo-gym evaluate`: policies against the modules of a corpus."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlgo_gym.cli.chosen_modules import LimitOption
from mlgo_gym.cli.compiler import CompilerOptions
from mlgo_gym.cli.machines import JobsOption, RayOption, address_of
from mlgo_gym.cli.option_group import with_options
from mlgo_gym.cli.output import FAILED, JsonOption, say
from mlgo_gym.cli.smallest import SmallestOption, and_smallest
from mlgo_gym.cli.termination import INTERRUPTED
from mlgo_gym.corpus.sampling import Part
from mlgo_gym.errors import UnreachableError

if TYPE_CHECKING:
    from mlgo_gym.evaluation import Evaluation


@with_options("compiler", CompilerOptions)
def evaluate(
    environment: Annotated[str, typer.Argument(help="The environment, for instance mlgo/Inline-v0.")],
    *,
    corpus: Annotated[
        str, typer.Option(help="builtin, a dataset, a folder, a .bc file, or several with commas between.")
    ] = "builtin",
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="A policy, or several with commas between; may be given again. What follows clang: is all flags.",
            show_default="default",
        ),
    ] = None,
    split: Annotated[
        Part | None,
        typer.Option(help="Take that part of the modules; their names decide, whatever else is in the corpus."),
    ] = None,
    jobs: JobsOption = None,
    ray: RayOption = None,
    envs: Annotated[
        int | None, typer.Option(min=1, help="How many episodes each process runs at once.", show_default="2")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="The folder for the results; what is there already is not made again.")
    ] = None,
    compiler: CompilerOptions,
    seed: Annotated[int, typer.Option(help="What random policies and --limit depend on.")] = 0,
    metric: Annotated[str | None, typer.Option(help="What counts: text, llvm-size, object, spill_cost, ….")] = None,
    reward: Annotated[str | None, typer.Option(help="The environment's reward: relative, bytes, log, ….")] = None,
    max_decisions: Annotated[
        int | None, typer.Option(min=1, help="So many decisions are the policy's, the others clang's own.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="How long clang may be silent, in seconds.")] = None,
    limit: LimitOption = None,
    offline_corpus: Annotated[
        str | None, typer.Option(help="The corpus to use when that one is to be fetched and the index is out of reach.")
    ] = None,
    link: Annotated[
        bool, typer.Option("--link", help="Also link what the recorded build linked, with each policy's objects.")
    ] = False,
    smallest: SmallestOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run policies on the modules of a corpus, and compare what they achieve with plain clang.

    Policies: default, random, and for the tasks that they fit never, always,
    threshold:NUMBER, first_legal, never_evict, size_order; clang:FLAGS for a
    plain clang with other flags, as in clang:-mllvm,-inline-threshold=20;
    models: mlp:FILE (safetensors), sb3:FILE (stable-baselines3), onnx:FILE,
    tflite:DIR (or the file); and your own, as package.module:Name or
    path/to/file.py:Name.

    With --link, for a corpus that `mlgo-gym corpus record` made of a build: the
    final binaries too, linked by the recorded commands.

    `mlgo-gym validate` makes the results again from the actions in them;
    `mlgo-gym trace` writes every decision of a policy as LLVM's training logs,
    and `mlgo-gym replay` checks those.

    Exit status 1: an episode or a link failed.
    """
    from mlgo_gym.cli.tables import print_result
    from mlgo_gym.evaluation import Evaluation
    from mlgo_gym.evaluation.evaluation import ENVS

    given = {"metric": metric, "reward": reward, "max_decisions": max_decisions, "timeout": timeout}
    arguments = {name: value for name, value in given.items() if value is not None} | compiler.arguments()
    policies = split_policies(policy or ["default"])

    def prepare(corpus: str, output: Path | None) -> Evaluation:
        return Evaluation(
            environment,
            policies=policies,
            corpus=corpus,
            split=split,
            output=output,
            env_kwargs=arguments,
            seed=seed,
            limit=limit,
        )

    try:
        evaluation = prepare(corpus, output)
    except UnreachableError as error:
        if offline_corpus is None:
            raise
        say(f"mlgo-gym: {error}\nmlgo-gym: going on with the corpus {offline_corpus} instead", err=True)
        elsewhere = None if output is None else output.with_name(f"{output.name}-{offline_corpus}")
        evaluation = prepare(offline_corpus, elsewhere)
    with evaluation:
        interrupted = _run(evaluation, jobs, envs or ENVS, address_of(ray))
        result = evaluation.result if interrupted else and_smallest(evaluation.result, wanted=smallest)
        linked = list(evaluation.link(trust=bool(arguments.get("trust")))) if link and not interrupted else []
    print_result(result, as_json=as_json, linked=linked)
    if interrupted:
        again = "the same command goes on from there" if output else "give --output to go on from there"
        say(f"mlgo-gym: interrupted, {evaluation.remaining} to go; {again}", err=True)
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(FAILED if result.failures or any(row.error for row in linked) else 0)


def _run(evaluation: Evaluation, jobs: int | None, envs: int, ray: str | None) -> bool:
    """Run the episodes; return whether Ctrl-C ended that."""
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.cli.running import RunningChanges

    running = RunningChanges()
    try:
        with (
            progress_over(evaluation.remaining, "Episodes") as advance,
            closing(evaluation.run(jobs, envs, ray=ray)) as episodes,
        ):
            for episode in episodes:
                measured = next(iter(episode.measures.values()), None)
                advance(str(running) if measured is None else running.add(episode.policy, *measured))
    except KeyboardInterrupt:
        return True
    return False


def split_policies(texts: Iterable[str]) -> list[str]:
    """Return the policies that several lists with commas name, each once.

    What follows `clang:` are flags, which have commas between them too, up to the end of the list.
    """
    policies: list[str] = []
    for text in texts:
        names, clang, flags = text.partition("clang:")
        policies += [name.strip() for name in names.split(",") if name.strip()]
        if clang:
            policies.append(clang + flags)
    return list(dict.fromkeys(policies))
