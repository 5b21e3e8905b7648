"""`mlgo-gym trace`: writes the decisions of a policy as training logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlgo_gym.cli.evaluate import CorpusOption, EnvironmentArgument, SeedOption
from mlgo_gym.cli.options import CompilerOptions, LimitOption, with_options
from mlgo_gym.cli.output import JsonOption, echo, show

if TYPE_CHECKING:
    from mlgo_gym.integrations.trace import Trajectory


@with_options("compiler", CompilerOptions)
def trace(
    environment: EnvironmentArgument,
    *,
    output: Annotated[Path, typer.Option(help="New folder for the results, as of `evaluate`, and logs/MODULE.log.")],
    policy: Annotated[str, typer.Option(help="Policy, as `evaluate` takes it.")] = "default",
    corpus: CorpusOption = "builtin",
    seed: SeedOption = 0,
    limit: LimitOption = None,
    compiler: CompilerOptions,
    minari: Annotated[
        str | None, typer.Option(metavar="ID", help="Id of a Minari dataset to make, such as mlgo/inline/default-v0.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the decisions of a policy as LLVM training logs, one per module.

    An observation has the features and, as its last tensor, the decision; its
    outcome is the reward, 0 except for the last. LLVM's log_reader.py and
    ml-compiler-opt read the logs, and `mlgo-gym replay` reproduces them.
    """
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.evaluation.record import NO_DECISIONS
    from mlgo_gym.integrations.minari import MinariDataset
    from mlgo_gym.integrations.trace import trace as write_trace
    from mlgo_gym.make_env import make_environment
    from mlgo_gym.policies.loading import with_callee_features

    arguments = with_callee_features(compiler.arguments(), [policy])
    dataset = None if minari is None else MinariDataset(minari, environment, policy)
    modules = make_environment(environment, {**arguments, "corpus": corpus}).corpus
    total = limit if modules.infinite else min(limit or len(modules), len(modules))
    with progress_over(total, "Modules") as advance:

        def progress(trajectory: Trajectory) -> None:
            advance()
            if dataset is not None:
                dataset.add(trajectory)

        result = write_trace(
            environment,
            policy,
            output=output,
            corpus=corpus,
            env_kwargs=arguments,
            seed=seed,
            limit=limit,
            progress=progress,
        )
    episodes = [episode for episode in result.episodes if episode.status != NO_DECISIONS]
    decisions = sum(episode.decisions for episode in episodes)
    failed = {episode.module: (episode.error or {}).get("message", "") for episode in result.failures}
    for module, message in failed.items():
        echo(f"{module}: {message}", err=True)
    text = f"{len(episodes)} episodes with {decisions} decisions in {output}"
    if dataset is not None:
        dataset.write({**arguments, "corpus": corpus})
        text += f"\nMinari dataset {minari}"
    data = {"episodes": len(episodes), "decisions": decisions, "output": output, "failed": failed, "minari": minari}
    show(as_json, data, text)
