"""`mlgo-gym train policy`: the whole road, from nothing but a corpus to a policy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlgo_gym.cli.call_option import CallsOption, arguments_with
from mlgo_gym.cli.chosen_modules import LargestOption, LimitOption
from mlgo_gym.cli.compiler import CompilerOptions
from mlgo_gym.cli.imitation_options import ImitationOptions, margin_line
from mlgo_gym.cli.machines import RayOption, address_of
from mlgo_gym.cli.option_group import with_options
from mlgo_gym.cli.output import JsonOption, show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.corpus.sampling import PARTS
from mlgo_gym.errors import MlgoError

if TYPE_CHECKING:
    from mlgo_gym.training.road_clock import Progress

BASES = {"Os": "threshold:5"}
"""Where each level starts, if not from clang's own choices: at -Os, what clang does at -Oz is better than these."""

BESIDE = {"Os": ["Oz"]}
"""The levels whose labels help at another one."""


@with_options("how", ImitationOptions)
@with_options("compiler", CompilerOptions)
def policy(
    *,
    output: Annotated[Path, typer.Option(help="A folder; the same command goes on with what is in it.")],
    corpus: Annotated[str, typer.Option(help="What to learn from, without a level.")] = (
        "builtin:train,catalogue:train"
    ),
    level: Annotated[str, typer.Option(help="The optimisation level that the policy is for.")] = "Oz",
    calls: CallsOption = False,
    beside: Annotated[
        list[str] | None,
        typer.Option(
            help="A level whose labels count too; the policy's own for none.", show_default="Oz, for a policy at Os"
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, help="How often labels are taken, each time around the last network.")
    ] = 4,
    compiles: Annotated[int, typer.Option(min=1, help="The most compiles of each module in each round.")] = 40,
    seconds: Annotated[float, typer.Option(help="The most processor time of each module in each round.")] = 3.0,
    largest: LargestOption = 330_000,
    most: Annotated[int, typer.Option(min=1, help="Take so many modules of a project at most.")] = 90,
    limit: LimitOption = None,
    margin: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Deviate from the base only where the logit is beyond this.",
            show_default="the best of several on the validation split",
        ),
    ] = None,
    how: ImitationOptions,
    ray: RayOption = None,
    compiler: CompilerOptions,
    as_json: JsonOption = False,
) -> None:
    """Go the whole road: label, train, label around the new network, and again.

    The first labels are taken around the base, which is threshold:5 at -Os
    unless another is given. The margin is chosen by compiles of the validation
    split's modules, with a network that has learned nothing of them.
    With --calls every label and network sees calls, as `inline-oz` does.
    `OUTPUT/policy.safetensors` is the policy, `OUTPUT/policy.json` its card,
    with how long everything took.
    """
    from mlgo_gym.training.labelling import Labelling
    from mlgo_gym.training.margin import Base
    from mlgo_gym.training.margin_choice import MARGINS
    from mlgo_gym.training.road import Road

    parts = [part.strip() for part in corpus.split(",") if part.strip()]
    if any("@" in part for part in parts):
        raise MlgoError(f"--corpus takes no level, found {corpus}; give it as --level")
    levels = dict.fromkeys([level, *(BESIDE.get(level, []) if beside is None else beside)])
    corpora = {each: ",".join(at_level(part, each) for part in parts) for each in levels}
    if how.base == ImitationOptions().base:
        how = replace(how, base=BASES.get(level, how.base))
    labelling = Labelling(
        ",".join(dict.fromkeys(corpora.values())),
        Base.parse(how.base).name,
        "mlgo/Inline-v0",
        arguments_with(compiler, calls=calls),
        compiles,
        seconds,
        how.seed,
        0,
        largest,
        limit,
        most,
    )
    margins = MARGINS if margin is None else ()
    with progress_over(None, "Labels") as shown:

        def note(progress: Progress) -> None:
            left = "" if progress.left is None else f", about {_minutes(progress.left)} left of all"
            shown.at(progress.done, progress.total, progress.stage, f"{_minutes(progress.used)} used{left}")

        road = Road(labelling, how.settings(margin or 0.0), rounds, margins, corpora[level])
        jobs = None if ray is not None and how.jobs == 1 else how.jobs
        final = road.run(output, jobs, note, ray=address_of(ray))
    card = json.loads(final.with_suffix(".json").read_bytes())
    lines = [margin_line(tried) for tried in card["margins"]]
    lines.append(
        f"wrote {final}, margin {card['margin']:g}; {card['modules']} modules, {rounds} rounds, "
        f"{card['seconds'] / 60:.1f} minutes"
    )
    show(as_json, {"output": final, **card}, "\n".join(lines))


def at_level(part: str, level: str) -> str:
    """Return a corpus at a level; of `NAME:train` it goes before the part. A folder has the level it was made at."""
    if Path(part).exists():
        return part
    name, colon, split = part.rpartition(":")
    if colon and split.partition("-")[0] in PARTS:
        return f"{name}@{level}:{split}"
    return f"{part}@{level}"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
