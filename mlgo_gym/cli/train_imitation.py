"""`mlgo-gym train imitation`: a network that learned from labelled decisions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlgo_gym.cli.chosen_modules import LargestOption
from mlgo_gym.cli.compiler import CompilerOptions
from mlgo_gym.cli.imitation_options import ImitationOptions, margin_line
from mlgo_gym.cli.network_options import OutputOption
from mlgo_gym.cli.option_group import with_options
from mlgo_gym.cli.output import JsonOption, show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.errors import MlgoError

if TYPE_CHECKING:
    from mlgo_gym.corpus.corpus import Corpus
    from mlgo_gym.training.imitation import Imitation


@with_options("how", ImitationOptions)
@with_options("compiler", CompilerOptions)
def imitation(
    labels: Annotated[
        list[Path], typer.Argument(help="Folders that mlgo-gym label has written, or Parquet files of labels.")
    ],
    *,
    output: OutputOption,
    margin: Annotated[
        float | None,
        typer.Option(min=0, help="Deviate from the base only where the logit is beyond this.", show_default="0"),
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(
            metavar="CORPUS",
            help="Choose the margin by compiles of these modules, with a network that has learned nothing of them.",
        ),
    ] = None,
    validation_modules: Annotated[int, typer.Option(min=1, help="Compile so many of them, drawn at random.")] = 120,
    largest: LargestOption = 330_000,
    environment: Annotated[str, typer.Option(help="The environment that compiles them.")] = "mlgo/Inline-v0",
    how: ImitationOptions,
    compiler: CompilerOptions,
    as_json: JsonOption = False,
) -> None:
    """Learn from labelled decisions: boosted trees, distilled into a small network.

    Prints what the labels say that clang, the trees and the network at several
    margins would give: the mean change of the modules, by single decisions,
    as if none mattered for another. Measure with `mlgo-gym evaluate`.
    With --validation the margin is chosen by real compiles, such as those of
    catalogue@Oz:valid; OUTPUT.margins has them, and the same command goes on.
    """
    from mlgo_gym.corpus.digests import sidecar, write_known_digests
    from mlgo_gym.evaluation.environment import make_environment
    from mlgo_gym.training.curves import curves
    from mlgo_gym.training.imitation import imitate_labels
    from mlgo_gym.training.module_order import module_order

    if margin is not None and validation is not None:
        raise MlgoError("--margin is a margin, and --validation has one chosen; give one of the two")
    chosen, valid = margin or 0.0, None
    tried: list[dict[str, Any]] = []
    if validation is not None:
        arguments = compiler.arguments()
        corpus = make_environment(environment, {**arguments, "corpus": validation}).corpus
        valid = corpus.filter(names=module_order(corpus, how.seed, largest)[:validation_modules])
        chosen, tried = _choose(labels, how.settings(0.0), valid, output, environment, arguments)
    with curves(output.with_suffix(".curves")) as curve, progress_over(how.steps, "Distillation") as progress:

        def note(step: int, loss: float) -> None:
            curve("distillation/loss", loss, step)
            progress.at(step, result=f"loss {loss:.4g}")

        imitated = imitate_labels(labels, how.settings(chosen), note=note)
    imitated.network.save(output)
    if imitated.learned is None:
        sidecar(output).unlink(missing_ok=True)
    else:
        write_known_digests(output, imitated.learned, valid or ())
    held_out = len(how.hold_out or ())
    where = f"the {held_out} projects held out" if imitated.held_out else "the modules that it learned from"
    lines = [margin_line(each) for each in tried]
    lines.append(f"{imitated.labels} labels of {imitated.modules} modules; by the labels of {where}:")
    lines += [f"  {name:24} {change:+8.2%}" for name, change in imitated.estimates.items()]
    lines.append(
        f"network and trees agree on {imitated.agreement:.1%}; wrote {output}"
        + (f", margin {chosen:g}" if chosen or tried else "")
    )
    if imitated.learned is None:
        lines.append(
            "some labels do not tell the digests of their modules: what it learned from is not written beside it"
        )
    data = {
        "output": output,
        "labels": imitated.labels,
        "modules": imitated.modules,
        "held_out": imitated.held_out,
        "estimates": imitated.estimates,
        "agreement": imitated.agreement,
        "margin": chosen,
        "margins": tried,
    }
    show(as_json, data, "\n".join(lines))


def _choose(
    labels: list[Path],
    settings: Imitation,
    valid: Corpus,
    output: Path,
    environment: str,
    arguments: dict[str, Any],
) -> tuple[float, list[dict[str, Any]]]:
    """Choose the margin with a network that has not learned from the modules that it is chosen by."""
    from mlgo_gym.corpus.digests import training_digest
    from mlgo_gym.policies.network import Network
    from mlgo_gym.training.labelled_network import labelled_network
    from mlgo_gym.training.margin import Base
    from mlgo_gym.training.margin_choice import MARGINS, choose_margin

    folder = output.with_suffix(".margins")
    file = folder / "network.safetensors"
    with progress_over(settings.network.steps, "Distillation for choosing the margin") as progress:
        apart = frozenset(map(training_digest, valid))
        labelled_network(labels, file, settings, without=apart, note=lambda step, _: progress.at(step))
    with progress_over(len(valid) * len(MARGINS), "Margins") as progress:
        return choose_margin(
            Network.load(file),
            MARGINS,
            Base.parse(settings.base),
            valid,
            folder,
            environment=environment,
            arguments=arguments,
            jobs=settings.jobs,
            note=lambda done, _: progress.at(done),
        )
