"""`mlgo-gym label`: labels of decisions, as training data."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from mlgo_gym.cli.options import (
    CalleeFeaturesOption,
    CompilerOptions,
    EnvironmentOption,
    ExecutionOptions,
    LargestOption,
    LimitOption,
    MetricOption,
    SeedOption,
    argument,
    option,
    with_options,
)
from mlgo_gym.cli.output import JsonOption, echo, exit_with, show
from mlgo_gym.cli.progress import progress_over

PADDING = 16
"""Difference in bytes that padding between functions can make."""


@with_options
def label(
    corpus: Annotated[str, argument("A dataset, a folder, a .bc file, or several separated by commas.")],
    *,
    output: Annotated[Path, option("Folder for the labels; finished modules are not labelled again.")],
    policy: Annotated[str, option("Policy that the labels are taken around.")] = "default",
    environment: EnvironmentOption = "mlgo/Inline-v0",
    callee_features: CalleeFeaturesOption = False,
    metric: MetricOption = None,
    compiles: Annotated[int, option("Maximum number of compiles per module.", min=1)] = 40,
    seconds: Annotated[float | None, option("Maximum CPU seconds per module.")] = None,
    execution: ExecutionOptions,
    seed: SeedOption = 0,
    check: Annotated[int, option("Labels per module to measure again by a single flip.", min=0)] = 0,
    largest: LargestOption = None,
    limit: LimitOption = None,
    compiler: CompilerOptions,
    as_json: JsonOption = False,
) -> None:
    """Measure the cost of other actions for many decisions around a policy.

    Inlining: one compile flips many independent decisions, and a label is the
    change in bytes, or in the metric. Evictions with --metric
    estimated-instructions: one compile flips a decision of every function.
    Other tasks: each label is a fork of the compile in which one action differs.
    The same command resumes an interrupted run. Train on the labels with
    `mlgo-gym train imitation`.

    Exit status 1: a module failed.
    """
    from mlgo_gym.training import Labelling

    arguments = compiler.arguments(callee_features=callee_features, metric=metric)
    labelling = Labelling(
        corpus,
        policy,
        environment,
        arguments,
        compiles=compiles,
        seconds=seconds,
        seed=seed,
        check=check,
        largest=largest,
        limit=limit,
    )
    total = len(labelling.modules(labelling.make().corpus))
    lines = _collect(labelling.run(output, execution.execution()), total)
    _report(lines, as_json)
    exit_with(any("error" in line for line in lines))


def _collect(lines: Iterable[dict[str, Any]], total: int) -> list[dict[str, Any]]:
    """Return the line of each module, show progress, and print the errors of failed modules."""
    collected = []
    labels = failed = 0
    with progress_over(total, "Modules") as advance:
        for line in lines:
            collected.append(line)
            labels, failed = labels + line.get("labels", 0), failed + ("error" in line)
            advance(f"{labels:,} labels" + (f", {failed} failed" if failed else ""))
            if "error" in line:
                echo(f"mlgo-gym: {line['module']} has no labels: {line['error'].splitlines()[0]}", err=True)
    return collected


def _report(lines: list[dict[str, Any]], as_json: bool) -> None:
    labelled = [line for line in lines if "error" not in line]
    names = ("labels", "decisions", "compiles", "seconds", "flips", "missed", "ambiguous", "unbalanced")
    total = {name: sum(line.get(name, 0) for line in labelled) for name in names}
    text = [
        f"{total['labels']} labels of {total['decisions']} decisions in {len(labelled)} modules",
        f"{total['compiles']} compiles, {total['seconds']:.0f} s of CPU time; {total['unbalanced']} without labels",
    ]
    if total["flips"]:
        missed, ambiguous = total["missed"], total["ambiguous"]
        text.append(f"{total['flips']} flips: {missed} did not occur again, {ambiguous} ambiguous")
    pairs = [pair for line in labelled for pair in line.get("checked", ())]
    if pairs:
        exact = sum(label == alone for label, alone in pairs)
        near = sum(abs(label - alone) <= PADDING for label, alone in pairs)
        signs = [(label > 0) == (alone > 0) for label, alone in pairs if min(abs(label), abs(alone)) > PADDING]
        text.append(
            f"{len(pairs)} labels against single flips: {exact / len(pairs):.0%} exact, {near / len(pairs):.0%} within "
            f"{PADDING} bytes"
            + (f"; of {len(signs)} beyond that {sum(signs) / len(signs):.0%} of the same sign" if signs else "")
        )
    failed = {line["module"]: line["error"] for line in lines if "error" in line}
    show(as_json, {"modules": len(labelled), **total, "checked": pairs, "failed": failed}, "\n".join(text))
