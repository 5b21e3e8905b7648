"""`mlgo-gym train best-of`: a network that imitates whichever baseline did best, module by module."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from mlgo_gym.cli.compiler import ClangOption, compiler_arguments
from mlgo_gym.cli.module_lines import collect, exit_status
from mlgo_gym.cli.trust import TrustOption
from mlgo_gym.cli.widths import widths


def best_of(
    *,
    output: Annotated[
        Path, typer.Option(help="The file of the network; OUTPUT.plays beside it has what was compiled.")
    ],
    baseline: Annotated[
        list[str], typer.Option(help="A policy, recipes:FOLDER (what a search found) or look-ahead:N; give several.")
    ],
    corpus: Annotated[str, typer.Option(help="What to compile and learn from.")] = "builtin",
    environment: Annotated[str, typer.Option(help="The environment.")] = "mlgo/Inline-v0",
    largest: Annotated[int | None, typer.Option(help="Leave out modules with more bytes of bitcode.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Take so many modules, drawn at random.")] = None,
    per_module: Annotated[int, typer.Option(min=1, help="Learn from so many decisions of a module at most.")] = 2000,
    hidden: Annotated[str, typer.Option(help="The widths of the hidden layers, with commas between.")] = "64,32",
    steps: Annotated[int, typer.Option(min=1, help="Steps of the network's optimiser.")] = 4000,
    doubt: Annotated[float, typer.Option(min=0, max=1, help="How unsure the network is to be.")] = 0.0,
    jobs: Annotated[int, typer.Option(min=1, help="How many processes.")] = 1,
    clang: ClangOption = None,
    trust: TrustOption = False,
    seed: Annotated[int, typer.Option(help="The source of chance: the same seed gives the same network.")] = 0,
) -> None:
    """Imitate the best of several baselines, module by module.

    Every baseline compiles every module; inlining is also mixed function by
    function, register allocation is taken function by function. The same
    command goes on where it was ended.

    Exit status 1: a module failed.
    """
    from mlgo_gym.training.best_of import BestOf
    from mlgo_gym.training.curves import curves
    from mlgo_gym.training.distillation import NetworkSettings

    settings = NetworkSettings(widths(hidden), steps)
    arguments = compiler_arguments(clang, trust)
    best = BestOf(corpus, tuple(baseline), environment, arguments, seed, largest, limit)
    plays = output.with_name(f"{output.name}.plays")
    lines = collect(best.run(plays, jobs), len(best.modules(best.make())), "answers")
    _report(lines)
    with curves(output.with_suffix(".curves")) as curve:
        network = best.learn(
            plays,
            settings,
            per_module=per_module,
            doubt=doubt,
            note=lambda step, loss: curve("imitation/loss", loss, step),
        )
    network.save(output)
    typer.echo(f"wrote {output}")
    raise typer.Exit(exit_status(lines))


def _report(lines: list[dict[str, Any]]) -> None:
    decided = [line for line in lines if line["decisions"]]
    wins: Counter[str] = Counter()
    for line in decided:
        wins.update(line["wins"])
    names = dict.fromkeys(name for line in decided for name in line["rewards"])
    typer.echo(f"{sum(line['decisions'] for line in decided)} decisions of {len(decided)} modules; rewards by module:")
    for name in names:
        there = [line["rewards"][name] for line in decided if name in line["rewards"]]
        typer.echo(f"  {name:24} {sum(there) / len(there):+.4f}, of {len(there)}; imitated {wins[name]} times")
    if decided:
        typer.echo(f"  {'the best of them':24} {sum(line['best'] for line in decided) / len(decided):+.4f}")
