"""`mlgo-gym explain` and `mlgo-gym importance`: why policies make different code, and their decisive features."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlgo_gym.cli.options import (
    CompilerOptions,
    EnvironmentOption,
    LargestOption,
    LimitOption,
    SeedOption,
    with_options,
)
from mlgo_gym.cli.output import JsonOption, echo, exit_with, show

if TYPE_CHECKING:
    from mlgo_gym.evaluation.table import Table
    from mlgo_gym.explanation.importance import ImportanceResult


@with_options
def explain(
    module: Annotated[str, typer.Argument(help="Module of the corpus, or a .bc file.")],
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Policy, as in evaluate; repeat for the second. One is compared with default."),
    ] = None,
    corpus: Annotated[str, typer.Option(help="Corpus of the module, as in evaluate.")] = "builtin",
    flags: Annotated[
        str | None, typer.Option(help="Flags for a .bc file without recorded flags, as one argument: '-Os -fPIC'.")
    ] = None,
    environment: EnvironmentOption = "mlgo/Inline-v0",
    measured: Annotated[
        int, typer.Option("--show", min=0, help="Maximum number of calls to show and measure, one compile each.")
    ] = 10,
    html: Annotated[Path | None, typer.Option(help="File for a page with the call graph.")] = None,
    as_json: JsonOption = False,
    seed: SeedOption = 0,
    compiler: CompilerOptions,
) -> None:
    """Explain why two policies make different code of a module.

    Shows the calls with different answers, their decisive features and their
    bytes, by credit and measured, and the functions that changed.

        mlgo-gym explain lib/compress/zstd_ldm.o --corpus zstd@Os
            --policy threshold:5 --policy inline-os --html ldm.html
    """
    from mlgo_gym.cli.evaluate import split_policies
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.episode.options import with_compile_options
    from mlgo_gym.explanation import explain_module
    from mlgo_gym.explanation.report import as_page, as_text
    from mlgo_gym.make_env import make_environment
    from mlgo_gym.policies.loading import with_callee_features
    from mlgo_gym.storage.cache import write_atomically

    first, second = _pair(split_policies(policy or ()))
    arguments: dict[str, Any] = {"corpus": corpus, **with_callee_features(compiler.arguments(), (first, second))}
    if module.endswith(".bc") and Path(module).is_file():
        arguments["corpus"] = str(Path(module).resolve())
    if flags is not None:
        arguments = with_compile_options(arguments, flags=shlex.split(flags))
    env = make_environment(environment, arguments)
    try:
        name = env.corpus.names[0] if arguments["corpus"] != corpus else module
        with progress_over(None, "Steps") as progress:

            def note(done: int, steps: int, found: str) -> None:
                progress.at(done, steps, result=found)

            explanation = explain_module(env, name, (first, second), measured=measured, seed=seed, note=note)
    finally:
        env.close()
    if html is not None:
        write_atomically(html, as_page(explanation, shlex.join(["mlgo-gym", *sys.argv[1:]])).encode())
    written = "" if html is None else f"\n\nwritten: {html}"
    show(as_json, explanation.to_json(), as_text(explanation) + written)


def _pair(policies: list[str]) -> tuple[str, str]:
    from mlgo_gym.errors import MlgoError

    pair = policies if len(policies) != 1 else ["default", *policies]
    if len(pair) != 2 or pair[0] == pair[1]:
        raise MlgoError(
            f"expected two different policies, got {', '.join(policies) or 'none'}; use --policy twice, or once to "
            "compare with default"
        )
    return pair[0], pair[1]


@with_options
def importance(
    corpus: Annotated[str, typer.Argument(help="builtin, a dataset, a folder or a .bc file; several with commas.")],
    *,
    policy: Annotated[str, typer.Option(help="Deterministic policy, as in evaluate.")],
    environment: EnvironmentOption = "mlgo/Inline-v0",
    cost_features: Annotated[
        int, typer.Option(min=0, help="Number of features with a measured cost, by one compile per module each.")
    ] = 6,
    shap: Annotated[int, typer.Option(min=0, help="Number of decisions for Shapley values; 0 for none.")] = 0,
    limit: LimitOption = None,
    largest: LargestOption = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of worker processes.")] = 1,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    compiler: CompilerOptions,
) -> None:
    """Measure which features a policy depends on, by permutation importance.

    Each feature gets the values of other decisions. changed: share of actions that change. cost: change of the
    geometric mean cost (bytes of code) of the modules, with a 95 % interval.

    Exit status 1: the policy failed on a module.
    """
    from mlgo_gym.cli.progress import progress_over
    from mlgo_gym.explanation.importance import Importance
    from mlgo_gym.scheduling import Execution

    study = Importance(
        corpus,
        policy,
        environment,
        compiler.arguments(),
        cost_features=cost_features,
        shap=shap,
        seed=seed,
        limit=limit,
        largest=largest,
    )
    with progress_over(study.steps(study.make()), "Episodes") as advance:
        found = study.run(Execution(jobs), advance)
    unused = [each.name for each in found.features if not each.changed]
    lines = [
        _importance_table(found, policy, corpus).as_text(),
        "",
        f"{found.decisions:,} decisions in {found.modules:,} modules; {found.sampled:,} of them permuted",
        *wrap(f"unused: {', '.join(unused) or 'none'}", 80, break_on_hyphens=False),
    ]
    show(as_json, asdict(found), "\n".join(lines))
    for name, error in found.failed.items():
        echo(f"mlgo-gym: {name} failed: {error.splitlines()[0]}", err=True)
    exit_with(found.failed)


def _importance_table(found: ImportanceResult, policy: str, corpus: str) -> Table:
    from mlgo_gym.evaluation.table import Table

    used = [each for each in found.features if each.changed]
    shapley = any(each.shap is not None for each in used)
    columns = ("feature", "changed", "cost", "95 % interval", *(("|SHAP|",) if shapley else ()))
    rows = []
    for each in used:
        interval = "" if each.cost_interval is None else f"[{each.cost_interval[0]:+.2%}, {each.cost_interval[1]:+.2%}]"
        cost = "" if each.cost is None else f"{each.cost:+.2%}"
        row = (each.name, f"{each.changed:.2%}", cost, interval)
        rows.append((*row, f"{each.shap:.3f}") if each.shap is not None else row)
    return Table(f"Importance of the features of {policy} on {corpus}", columns, tuple(rows))
