"""`mlgo-gym train best-of`: a network that imitates whichever baseline did best, module by module."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from mlgo_gym.cli.chosen_modules import LargestOption, LimitOption
from mlgo_gym.cli.compiler import CompilerOptions
from mlgo_gym.cli.machines import JobsOption, RayOption, address_of
from mlgo_gym.cli.module_lines import collect, exit_status
from mlgo_gym.cli.network_options import HiddenOption, SeedOption, StepsOption, widths
from mlgo_gym.cli.option_group import with_options
from mlgo_gym.cli.output import JsonOption, show


@with_options("compiler", CompilerOptions)
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
    largest: LargestOption = None,
    limit: LimitOption = None,
    per_module: Annotated[int, typer.Option(min=1, help="Learn from so many decisions of a module at most.")] = 2000,
    hidden: HiddenOption = "64,32",
    steps: StepsOption = 4000,
    doubt: Annotated[float, typer.Option(min=0, max=1, help="How unsure the network is to be.")] = 0.0,
    jobs: JobsOption = None,
    ray: RayOption = None,
    compiler: CompilerOptions,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Imitate the best of several baselines, module by module.

    Every baseline compiles every module; inlining is also mixed function by
    function, register allocation is taken function by function. The same
    command goes on where it was ended.

    Exit status 1: a module failed.
    """
    from mlgo_gym.corpus.digests import write_sidecar
    from mlgo_gym.training.best_of import BestOf
    from mlgo_gym.training.curves import curves
    from mlgo_gym.training.distillation import NetworkSettings

    settings = NetworkSettings(widths(hidden), steps)
    best = BestOf(corpus, tuple(baseline), environment, compiler.arguments(), seed, largest, limit)
    plays = output.with_name(f"{output.name}.plays")
    lines = collect(best.run(plays, jobs, ray=address_of(ray)), len(best.modules(best.make())), "answers", "decisions")
    with curves(output.with_suffix(".curves")) as curve:
        network = best.learn(
            plays,
            settings,
            per_module=per_module,
            doubt=doubt,
            note=lambda step, loss: curve("imitation/loss", loss, step),
        )
    network.save(output)
    env = best.make()
    write_sidecar(output, map(env.corpus.module, best.modules(env)))
    data = {"output": output, **_data(lines)}
    show(as_json, data, "\n".join([*_report(data), f"wrote {output}"]))
    raise typer.Exit(exit_status(lines))


def _data(lines: list[dict[str, Any]]) -> dict[str, Any]:
    decided = [line for line in lines if line["decisions"]]
    wins: Counter[str] = Counter()
    for line in decided:
        wins.update(line["wins"])
    rewards: dict[str, list[float]] = {}
    for line in decided:
        for name, reward in line["rewards"].items():
            rewards.setdefault(name, []).append(reward)
    return {
        "modules": len(decided),
        "decisions": sum(line["decisions"] for line in decided),
        "rewards": {name: {"mean": sum(there) / len(there), "modules": len(there)} for name, there in rewards.items()},
        "imitated": {name: wins[name] for name in rewards},
        "best": sum(line["best"] for line in decided) / len(decided) if decided else None,
    }


def _report(data: dict[str, Any]) -> list[str]:
    lines = [f"{data['decisions']} decisions of {data['modules']} modules; rewards by module:"]
    for name, reward in data["rewards"].items():
        counts = f"of {reward['modules']}; imitated {data['imitated'][name]} times"
        lines.append(f"  {name:24} {reward['mean']:+.4f}, {counts}")
    if data["best"] is not None:
        lines.append(f"  {'the best of them':24} {data['best']:+.4f}")
    return lines
