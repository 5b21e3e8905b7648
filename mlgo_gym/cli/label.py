"""`mlgo-gym label`: what decisions are worth, as a data set to learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mlgo_gym.cli.call_option import CallsOption, arguments_with
from mlgo_gym.cli.chosen_modules import LargestOption, LimitOption
from mlgo_gym.cli.compiler import CompilerOptions
from mlgo_gym.cli.machines import JobsOption, RayOption, address_of
from mlgo_gym.cli.module_lines import collect, exit_status
from mlgo_gym.cli.option_group import with_options
from mlgo_gym.cli.output import JsonOption, show


@with_options("compiler", CompilerOptions)
def label(
    corpus: Annotated[str, typer.Argument(help="A dataset, a folder, a .bc file, or several with commas between.")],
    *,
    output: Annotated[Path, typer.Option(help="The folder of labels; what is there already is not made again.")],
    policy: Annotated[str, typer.Option(help="The policy that the labels are taken around.")] = "default",
    environment: Annotated[
        str, typer.Option(help="mlgo/Inline-v0, or mlgo/InlineIR2Vec-v0 for histograms of opcodes too.")
    ] = "mlgo/Inline-v0",
    calls: CallsOption = False,
    compiles: Annotated[int, typer.Option(min=1, help="The most compiles of each module.")] = 40,
    seconds: Annotated[float | None, typer.Option(help="The most processor time of each module.")] = None,
    jobs: JobsOption = None,
    ray: RayOption = None,
    seed: Annotated[int, typer.Option(help="What is flipped, and the order of the modules.")] = 0,
    check: Annotated[int, typer.Option(min=0, help="Measure so many labels of each module again, alone.")] = 0,
    largest: LargestOption = None,
    limit: LimitOption = None,
    compiler: CompilerOptions,
    as_json: JsonOption = False,
) -> None:
    """Measure the bytes of "inline" minus "do not" for many decisions around a policy.

    One compile flips many decisions that have nothing to do with each other.
    The same command goes on where it was ended. Learn from the labels with
    `mlgo-gym train imitation`. With --calls they have features of the call too:
    what is called, and what was decided before; around a policy that sees
    calls they always have.

    Exit status 1: a module failed.
    """
    from mlgo_gym.training.labelling import Labelling

    arguments = arguments_with(compiler, calls=calls)
    labelling = Labelling(corpus, policy, environment, arguments, compiles, seconds, seed, check, largest, limit)
    total = len(labelling.modules(labelling.make()))
    lines = collect(labelling.run(output, jobs, ray=address_of(ray)), total, "labels", "labels")
    _report(lines, as_json)
    raise typer.Exit(exit_status(lines))


def _report(lines: list[dict[str, Any]], as_json: bool) -> None:
    good = [line for line in lines if "error" not in line]
    total = {
        name: sum(line[name] for line in good)
        for name in ("labels", "decisions", "compiles", "flips", "missed", "ambiguous", "unbalanced", "seconds")
    }
    said = [
        f"{total['labels']} labels of {total['decisions']} decisions in {len(good)} modules",
        f"{total['compiles']} compiles, {total['seconds']:.0f} s of processor time; {total['unbalanced']} thrown away",
        f"{total['flips']} flips: {total['missed']} did not come up again, {total['ambiguous']} ambiguous",
    ]
    pairs = [pair for line in good for pair in line["checked"]]
    if pairs:
        exact = sum(label == alone for label, alone in pairs)
        near = sum(abs(label - alone) <= NEAR for label, alone in pairs)
        signs = [(label > 0) == (alone > 0) for label, alone in pairs if abs(label) > NEAR and abs(alone) > NEAR]
        said.append(
            f"{len(pairs)} labels against single flips: {exact / len(pairs):.0%} exact, {near / len(pairs):.0%} within "
            f"{NEAR} bytes"
            + (f"; of {len(signs)} beyond that {sum(signs) / len(signs):.0%} of one sign" if signs else "")
        )
    failed = {line["module"]: line["error"] for line in lines if "error" in line}
    show(as_json, {"modules": len(good), **total, "checked": pairs, "failed": failed}, "\n".join(said))


NEAR = 16
"""The bytes that padding between functions can make."""
