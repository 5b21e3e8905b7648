"""`mlgo-gym trace`: the training logs of a policy over a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlgo_gym.cli.chosen_modules import LimitOption
from mlgo_gym.cli.compiler import CompilerOptions
from mlgo_gym.cli.option_group import with_options
from mlgo_gym.cli.output import JsonOption, say, show

if TYPE_CHECKING:
    from mlgo_gym.trajectories.trajectory import Trajectory


@with_options("compiler", CompilerOptions)
def trace(
    environment: Annotated[str, typer.Argument(help="The environment, for instance mlgo/Inline-v0.")],
    *,
    output: Annotated[Path, typer.Option(help="A new folder for logs/MODULE.log, episodes.jsonl and meta.json.")],
    policy: Annotated[str, typer.Option(help="A policy, as `evaluate` takes it.")] = "default",
    corpus: Annotated[
        str, typer.Option(help="builtin, a dataset, a folder, a .bc file, or several with commas between.")
    ] = "builtin",
    seed: Annotated[int, typer.Option(help="What random policies and --limit depend on.")] = 0,
    limit: LimitOption = None,
    compiler: CompilerOptions,
    minari: Annotated[
        str | None, typer.Option(metavar="ID", help="Also make a Minari dataset, for instance mlgo/inline/default-v0.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write what a policy decides as LLVM training logs, one for each module.

    An observation is the features and, last of them, the decision; its outcome
    is the reward, 0 but for the last. LLVM's log_reader.py and ml-compiler-opt
    read them, and `mlgo-gym replay` runs them again.
    """
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.evaluation.environment import make_environment
    from mlgo_gym.trajectories import trace as write_trace
    from mlgo_gym.trajectories.minari import MinariDataset

    arguments = compiler.arguments()
    dataset = None if minari is None else MinariDataset(minari, environment, policy)
    modules = make_environment(environment, {**arguments, "corpus": corpus}).corpus
    total = limit if modules.endless else min(limit or len(modules), len(modules))
    with progress_over(total, "Modules") as advance:

        def note(trajectory: Trajectory | None) -> None:
            advance()
            if dataset is not None:
                dataset.add(trajectory)

        episodes = write_trace(
            environment,
            policy,
            output=output,
            corpus=corpus,
            env_kwargs=arguments,
            seed=seed,
            limit=limit,
            progress=note,
        )
    decisions = sum(episode.decisions for episode in episodes)
    failed = {episode.module: episode.error["message"] for episode in episodes if episode.error is not None}
    for module, message in failed.items():
        say(f"{module}: {message}", err=True)
    text = f"{len(episodes)} episodes with {decisions} decisions in {output}"
    if dataset is not None:
        dataset.write({**arguments, "corpus": corpus})
        text += f"\nthe Minari dataset {minari}"
    data = {"episodes": len(episodes), "decisions": decisions, "output": output, "failed": failed, "minari": minari}
    show(as_json, data, text)
