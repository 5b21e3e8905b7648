"""`mlgo-gym train`: networks from labels, from other policies, from their own trials, and the whole road."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlgo_gym.cli.compiler import ClangOption, compiler_arguments
from mlgo_gym.cli.train_best_of import best_of
from mlgo_gym.cli.trust import TrustOption
from mlgo_gym.cli.widths import widths
from mlgo_gym.corpus.sampling import PARTS
from mlgo_gym.errors import MlgoError

if TYPE_CHECKING:
    from mlgo_gym.training.imitation import Imitation

train_commands = typer.Typer(
    help="Train policies: from labels, from other policies, by evolution, or the whole road.", no_args_is_help=True
)

train_commands.command("best-of")(best_of)

Output = Annotated[Path, typer.Option(help="The file of the network, in safetensors.")]
Seed = Annotated[int, typer.Option(help="The source of chance: the same seed gives the same network.")]
Jobs = Annotated[int, typer.Option(min=1, help="How many processes.")]
Margin = Annotated[float, typer.Option(min=0, help="Deviate from the base only where the logit is beyond this.")]
Base = Annotated[str, typer.Option(help="What the margin is about: default (clang's own choice) or threshold:K.")]
HoldOut = Annotated[
    list[str] | None, typer.Option(help="A project that is not learned from but estimated on; may be given again.")
]
Power = Annotated[float, typer.Option(help="A label weighs its bytes to this power.")]
Relative = Annotated[float, typer.Option(help="And is divided by the module's bytes to this one.")]
Teachers = Annotated[int, typer.Option(min=1, help="So many models of trees are averaged.")]
Trees = Annotated[int, typer.Option(min=1, help="The trees of each.")]
Hidden = Annotated[str, typer.Option(help="The widths of the hidden layers, with commas between.")]
Steps = Annotated[int, typer.Option(min=1, help="Steps of the network's optimiser.")]


@train_commands.command()
def imitation(
    labels: Annotated[list[Path], typer.Argument(help="Folders that mlgo-gym label has written.")],
    *,
    output: Output,
    margin: Margin = 0.0,
    base: Base = "default",
    hold_out: HoldOut = None,
    power: Power = 1.0,
    relative: Relative = 0.5,
    teachers: Teachers = 3,
    trees: Trees = 300,
    hidden: Hidden = "64,32",
    steps: Steps = 6000,
    jobs: Jobs = 1,
    seed: Seed = 0,
) -> None:
    """Learn from labelled decisions: boosted trees, distilled into a small network.

    Prints what the labels say that clang, the trees and the network at several
    margins would give: the mean change of the modules, by single decisions,
    as if none mattered for another. Measure with `mlgo-gym evaluate`.
    """
    from mlgo_gym.training.curves import curves
    from mlgo_gym.training.imitation import imitate_labels

    settings = _imitation(margin, base, hold_out, power, relative, teachers, trees, hidden, steps, seed, jobs)
    with curves(output.with_suffix(".curves")) as curve:
        imitated = imitate_labels(labels, settings, note=lambda step, loss: curve("distillation/loss", loss, step))
    imitated.network.save(output)
    where = f"the {len(hold_out or ())} projects held out" if imitated.held_out else "the modules that it learned from"
    typer.echo(f"{imitated.labels} labels of {imitated.modules} modules; by the labels of {where}:")
    for name, change in imitated.estimates.items():
        typer.echo(f"  {name:24} {change:+8.2%}")
    typer.echo(f"network and trees agree on {imitated.agreement:.1%}; wrote {output}")


def _imitation(
    margin: float,
    base: str,
    hold_out: list[str] | None,
    power: float,
    relative: float,
    teachers: int,
    trees: int,
    hidden: str,
    steps: int,
    seed: int,
    jobs: int,
) -> Imitation:
    from mlgo_gym.training.distillation import NetworkSettings
    from mlgo_gym.training.imitation import Imitation
    from mlgo_gym.training.teacher import TeacherSettings

    return Imitation(
        TeacherSettings(power, relative, teachers, trees),
        NetworkSettings(widths(hidden), steps),
        margin,
        base,
        tuple(hold_out or ()),
        seed,
        jobs,
    )


@train_commands.command()
def clone(
    *,
    output: Output,
    environment: Annotated[str, typer.Option(help="The environment.")] = "mlgo/Inline-v0",
    corpus: Annotated[str, typer.Option(help="What to play on.")] = "builtin",
    expert: Annotated[str, typer.Option(help="The policy to imitate; default is clang.")] = "default",
    rounds: Annotated[int, typer.Option(min=1, help="1 is behaviour cloning; more are DAgger.")] = 3,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of each round.")] = 16,
    hidden: Hidden = "64,32",
    steps: Steps = 2000,
    see_default: Annotated[bool, typer.Option(help="Let the network see clang's own choice.")] = False,
    doubt: Annotated[
        float, typer.Option(min=0, max=1, help="How unsure the network is to be: what it explores.")
    ] = 0.0,
    clang: ClangOption = None,
    trust: TrustOption = False,
    seed: Seed = 0,
) -> None:
    """Imitate another policy, by behaviour cloning and DAgger: where learning by trial starts."""
    from mlgo_gym.evaluation.environment import make_environment
    from mlgo_gym.training.clone import imitate
    from mlgo_gym.training.distillation import NetworkSettings
    from mlgo_gym.training.features import DEFAULT

    env = make_environment(environment, {"corpus": corpus, **compiler_arguments(clang, trust)})

    def note(number: int, agreement: float) -> None:
        who = "the expert itself" if number == 0 else "the network"
        typer.echo(f"round {number + 1} of {rounds}: {who} agreed on {agreement:.2%} of decisions", err=True)

    network = imitate(
        env,
        expert,
        rounds=rounds,
        episodes=episodes,
        settings=NetworkSettings(widths(hidden), steps),
        leave_out=() if see_default else (DEFAULT,),
        doubt=doubt,
        seed=seed,
        note=note,
    )
    network.save(output)
    typer.echo(f"wrote {output}")


@train_commands.command()
def evolve(
    start: Annotated[Path, typer.Argument(help="The network to start from.")],
    *,
    output: Output,
    environment: Annotated[str, typer.Option(help="The environment.")] = "mlgo/Inline-v0",
    corpus: Annotated[str, typer.Option(help="What to compile.")] = "builtin",
    generations: Annotated[int, typer.Option(min=1, help="How many steps.")] = 100,
    directions: Annotated[int, typer.Option(min=1, help="Directions of each, tried forth and back.")] = 8,
    best: Annotated[int, typer.Option(min=1, help="So many of them count.")] = 4,
    modules: Annotated[int, typer.Option(min=1, help="Modules that each sample compiles.")] = 8,
    deviation: Annotated[float, typer.Option(help="How far samples are, in parts of the weights' spread.")] = 0.05,
    step: Annotated[float, typer.Option(help="The size of a step.")] = 0.003,
    largest: Annotated[int | None, typer.Option(help="Leave out modules with more bytes of bitcode.")] = 60_000,
    jobs: Jobs = 1,
    clang: ClangOption = None,
    trust: TrustOption = False,
    seed: Seed = 0,
) -> None:
    """Let a network's weights evolve against the real size of modules.

    The same command goes on where it was ended, to the same result.
    """
    from mlgo_gym.policies.network import Network
    from mlgo_gym.training.curves import curves
    from mlgo_gym.training.evolution import Evolution

    arguments = {"corpus": corpus, **compiler_arguments(clang, trust)}
    evolution = Evolution(
        environment, arguments, generations, directions, best, modules, deviation, step, largest, seed
    )
    with curves(output.with_suffix(".curves")) as curve:

        def note(generation: int, reduction: float) -> None:
            curve("evolution/reduction", reduction, generation)
            typer.echo(f"generation {generation + 1} of {generations}: {-reduction:+.3%} against clang", err=True)

        evolution.run(Network.load(start), output, jobs, note)
    typer.echo(f"wrote {output}")


@train_commands.command()
def policy(
    *,
    output: Annotated[Path, typer.Option(help="A folder; the same command goes on with what is in it.")],
    corpus: Annotated[str, typer.Option(help="What to learn from, without a level; its training split by project.")],
    level: Annotated[
        list[str] | None,
        typer.Option(help="The optimisation level, Oz (the default) or Os; given again, labels of both."),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="How often labels are taken, each time around the last network.")
    ] = 3,
    compiles: Annotated[int, typer.Option(min=1, help="The most compiles of each module in each round.")] = 40,
    seconds: Annotated[float, typer.Option(help="The most processor time of each module in each round.")] = 3.0,
    largest: Annotated[int | None, typer.Option(help="Leave out modules with more bytes of bitcode.")] = 330_000,
    limit: Annotated[int | None, typer.Option(min=1, help="Take so many modules, drawn at random.")] = None,
    margin: Margin = 0.0,
    base: Base = "default",
    hold_out: HoldOut = None,
    power: Power = 1.0,
    relative: Relative = 0.5,
    teachers: Teachers = 3,
    trees: Trees = 300,
    hidden: Hidden = "64,32",
    steps: Steps = 6000,
    jobs: Jobs = 1,
    clang: ClangOption = None,
    trust: TrustOption = False,
    seed: Seed = 0,
) -> None:
    """Go the whole road: label, train, label around the new network, and again.

    The first labels are taken around the base, --base default or threshold:K.
    `OUTPUT/policy.safetensors` is the policy, `OUTPUT/policy.json` its card,
    with how long everything took.
    """
    from mlgo_gym.training.labelling import Labelling
    from mlgo_gym.training.margin import Base
    from mlgo_gym.training.road import Road

    parts = [part.strip() for part in corpus.split(",") if part.strip()]
    if any("@" in part for part in parts):
        raise MlgoError(f"--corpus takes no level, found {corpus}; give it as --level")
    at_level = ",".join(_at_level(part, each) for each in dict.fromkeys(level or ["Oz"]) for part in parts)
    arguments = compiler_arguments(clang, trust)
    start = Base.parse(base).name
    labelling = Labelling(at_level, start, "mlgo/Inline-v0", arguments, compiles, seconds, seed, 0, largest, limit)
    settings = _imitation(margin, base, hold_out, power, relative, teachers, trees, hidden, steps, seed, jobs)
    with _stages() as note:
        final = Road(labelling, settings, rounds).run(output, jobs, note)
    card = json.loads(final.with_suffix(".json").read_bytes())
    typer.echo(f"wrote {final}; {card['modules']} modules, {rounds} rounds, {card['seconds'] / 60:.1f} minutes")


def _at_level(part: str, level: str) -> str:
    """Return a corpus at a level; of `NAME:train` it goes before the part. A folder has the level it was made at."""
    if Path(part).exists():
        return part
    name, colon, split = part.rpartition(":")
    if colon and split.partition("-")[0] in PARTS:
        return f"{name}@{level}:{split}"
    return f"{part}@{level}"


BETWEEN_LINES = 10.0
"""The seconds between two lines of progress."""


@contextmanager
def _stages() -> Iterator[Callable[[str, int, int], None]]:
    """Give a function that says how far a stage is, now and then and at its end."""
    last = 0.0

    def note(stage: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= BETWEEN_LINES:
            last = now
            typer.echo(f"{stage}: {done} of {total}", err=True)

    yield note
