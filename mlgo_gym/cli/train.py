"""`mlgo-gym train`: networks from labels, from other policies, from their own trials, and the whole road."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.chosen_modules import LargestOption
from mlgo_gym.cli.compiler import CompilerOptions
from mlgo_gym.cli.machines import JobsOption, RayOption, address_of
from mlgo_gym.cli.network_options import HiddenOption, OutputOption, SeedOption, StepsOption, widths
from mlgo_gym.cli.option_group import with_options
from mlgo_gym.cli.output import JsonOption, show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.cli.train_best_of import best_of
from mlgo_gym.cli.train_imitation import imitation
from mlgo_gym.cli.train_policy import policy

train_commands = typer.Typer(
    help="Train policies: from labels, from other policies, by evolution, or the whole road.", no_args_is_help=True
)

train_commands.command("best-of")(best_of)
train_commands.command()(imitation)
train_commands.command("policy")(policy)


@train_commands.command()
@with_options("compiler", CompilerOptions)
def clone(
    *,
    output: OutputOption,
    environment: Annotated[str, typer.Option(help="The environment.")] = "mlgo/Inline-v0",
    corpus: Annotated[str, typer.Option(help="What to play on.")] = "builtin",
    expert: Annotated[str, typer.Option(help="The policy to imitate; default is clang.")] = "default",
    rounds: Annotated[int, typer.Option(min=1, help="1 is behaviour cloning; more are DAgger.")] = 3,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of each round.")] = 16,
    hidden: HiddenOption = "64,32",
    steps: StepsOption = 2000,
    see_default: Annotated[bool, typer.Option(help="Let the network see clang's own choice.")] = False,
    doubt: Annotated[
        float, typer.Option(min=0, max=1, help="How unsure the network is to be: what it explores.")
    ] = 0.0,
    jobs: JobsOption = None,
    ray: RayOption = None,
    compiler: CompilerOptions,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Imitate another policy, by behaviour cloning and DAgger: where learning by trial starts."""
    from mlgo_gym.corpus.digests import write_sidecar
    from mlgo_gym.evaluation.environment import make_environment
    from mlgo_gym.training.cloning import Cloning
    from mlgo_gym.training.distillation import NetworkSettings
    from mlgo_gym.training.features import DEFAULT

    arguments = {"corpus": corpus, **compiler.arguments()}

    agreements: list[float] = []
    with progress_over(rounds, "Rounds") as progress:

        def note(number: int, agreement: float) -> None:
            who = "the expert itself" if number == 0 else "the network"
            agreements.append(agreement)
            progress(f"{who} agreed on {agreement:.2%} of decisions")

        cloning = Cloning(
            environment,
            arguments,
            expert,
            rounds,
            episodes,
            settings=NetworkSettings(widths(hidden), steps),
            leave_out=() if see_default else (DEFAULT,),
            doubt=doubt,
            seed=seed,
        )
        network = cloning.run(jobs, note, ray=address_of(ray))
    network.save(output)
    played = make_environment(environment, arguments).corpus
    if not played.endless:
        write_sidecar(output, played)
    said = ", ".join(f"{agreement:.2%}" for agreement in agreements)
    show(as_json, {"output": output, "agreement": agreements}, f"agreed, round by round: {said}\nwrote {output}")


@train_commands.command()
@with_options("compiler", CompilerOptions)
def evolve(
    start: Annotated[Path, typer.Argument(help="The network to start from.")],
    *,
    output: OutputOption,
    environment: Annotated[str, typer.Option(help="The environment.")] = "mlgo/Inline-v0",
    corpus: Annotated[str, typer.Option(help="What to compile.")] = "builtin",
    generations: Annotated[int, typer.Option(min=1, help="How many steps.")] = 100,
    directions: Annotated[int, typer.Option(min=1, help="Directions of each, tried forth and back.")] = 8,
    best: Annotated[int, typer.Option(min=1, help="So many of them count.")] = 4,
    modules: Annotated[int, typer.Option(min=1, help="Modules that each sample compiles.")] = 8,
    deviation: Annotated[float, typer.Option(help="How far samples are, in parts of the weights' spread.")] = 0.05,
    step: Annotated[float, typer.Option(help="The size of a step of Adam.")] = 0.003,
    optimiser: Annotated[str, typer.Option(help="adam, or cma for CMA-ES with a diagonal covariance.")] = "adam",
    largest: LargestOption = 60_000,
    jobs: JobsOption = None,
    ray: RayOption = None,
    compiler: CompilerOptions,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Let a network's weights evolve against the real size of modules.

    The same command goes on where it was ended, to the same result.
    """
    from mlgo_gym.corpus.digests import write_sidecar
    from mlgo_gym.evaluation.environment import make_environment
    from mlgo_gym.policies.network import Network
    from mlgo_gym.training.curves import curves
    from mlgo_gym.training.evolution import Evolution

    arguments = {"corpus": corpus, **compiler.arguments()}
    evolution = Evolution(
        environment, arguments, generations, directions, best, modules, deviation, step, largest, seed, optimiser
    )
    changes: list[float] = []
    with curves(output.with_suffix(".curves")) as curve, progress_over(generations, "Generations") as progress:

        def note(generation: int, reduction: float) -> None:
            curve("evolution/reduction", reduction, generation)
            changes.append(-reduction)
            progress.at(generation + 1, result=f"{-reduction:+.3%} against clang")

        evolution.run(Network.load(start), output, jobs, note, ray=address_of(ray))
    compiled = make_environment(environment, arguments).corpus
    if not compiled.endless:
        write_sidecar(output, compiled, start=start)
    last = f"; the last generation {changes[-1]:+.3%} against clang" if changes else ""
    show(as_json, {"output": output, "changes": changes}, f"wrote {output}{last}")
