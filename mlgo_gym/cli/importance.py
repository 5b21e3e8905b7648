"""`mlgo-gym importance`: which features a policy listens to."""

from __future__ import annotations

from dataclasses import asdict
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer

from mlgo_gym.cli.chosen_modules import LargestOption, LimitOption
from mlgo_gym.cli.compiler import CompilerOptions
from mlgo_gym.cli.option_group import with_options
from mlgo_gym.cli.output import FAILED, JsonOption, say, show

if TYPE_CHECKING:
    from mlgo_gym.evaluation.table import Table
    from mlgo_gym.explanation.importance import Importances


@with_options("compiler", CompilerOptions)
def importance(
    corpus: Annotated[str, typer.Argument(help="builtin, a dataset, a folder, a .bc file, or several with commas.")],
    *,
    policy: Annotated[str, typer.Option(help="The policy, as `evaluate` takes it.")],
    environment: Annotated[str, typer.Option(help="The environment.")] = "mlgo/Inline-v0",
    compiled: Annotated[
        int, typer.Option("--compile", min=0, help="Compile without so many features, those that decide most.")
    ] = 6,
    shap: Annotated[int, typer.Option(min=0, help="Also Shapley values over so many decisions, by the library.")] = 0,
    limit: LimitOption = None,
    largest: LargestOption = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many processes.")] = 1,
    seed: Annotated[int, typer.Option(help="The source of chance.")] = 0,
    as_json: JsonOption = False,
    compiler: CompilerOptions,
) -> None:
    """Show which features a policy listens to, by permutation importance.

    decisions: the share that comes out otherwise where the policy is shown that
    feature of another decision. cost: by how much the metric (the bytes of code)
    grows in compiles in which the policy does not see it, with a 95 % interval.

    Exit status 1: the policy failed on a module.
    """
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.explanation.importance import Importance

    wanted = Importance(corpus, policy, environment, compiler.arguments(), compiled, shap, seed, limit, largest)
    with progress_over(wanted.steps(wanted.make()), "Episodes") as advance:
        found = wanted.find(jobs, advance)
    silent = [each.name for each in found.features if not each.decisions]
    lines = [
        _table(found, policy, corpus).as_text(),
        "",
        f"{found.decisions:,} decisions in {found.modules:,} modules; asked again about {found.asked:,}",
        *wrap(f"never heard: {', '.join(silent) or 'none'}", 80, break_on_hyphens=False),
    ]
    show(as_json, asdict(found), "\n".join(lines))
    for name, why in found.failed.items():
        say(f"mlgo-gym: {name} failed: {why.splitlines()[0]}", err=True)
    raise typer.Exit(FAILED if found.failed else 0)


def _table(found: Importances, policy: str, corpus: str) -> Table:
    from mlgo_gym.evaluation.table import Table

    heard = [each for each in found.features if each.decisions]
    shapley = any(each.shap is not None for each in heard)
    columns = ("feature", "decisions", "cost", "95 % interval", *(("|SHAP|",) if shapley else ()))
    rows = []
    for each in heard:
        interval = "" if each.cost_interval is None else f"[{each.cost_interval[0]:+.2%}, {each.cost_interval[1]:+.2%}]"
        cost = "" if each.cost is None else f"{each.cost:+.2%}"
        row = (each.name, f"{each.decisions:.2%}", cost, interval)
        rows.append((*row, f"{each.shap:.3f}") if each.shap is not None else row)
    return Table(f"What {policy} listens to on {corpus}", columns, tuple(rows))
