"""Options and progress of the commands that train networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlgo_gym.cli.options import CompilerOptions
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.errors import MlgoError

if TYPE_CHECKING:
    from mlgo_gym.training import Monitor, NetworkSettings, TreeImitation

OutputOption = Annotated[Path, typer.Option(help="File for the network, in safetensors.")]
CalleeFeaturesOption = Annotated[
    bool, typer.Option("--callee-features", help="Add features of the callee and of earlier decisions.")
]
SeedOption = Annotated[int, typer.Option(help="Random seed; the same seed gives the same network.")]
HiddenOption = Annotated[str, typer.Option(help="Widths of the hidden layers, separated by commas.")]
StepsOption = Annotated[int, typer.Option(min=1, help="Steps of the network's optimiser.")]
MarginOption = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Deviate from the base only where the output is beyond this.",
        show_default="train imitation: 0 or the choice of --validation; train policy: the best of several",
    ),
]


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """Trees fitted to labels, and the network that they are distilled into."""

    base: Annotated[
        str | None,
        typer.Option(
            help="Policy that the network deviates from: default (clang's own choice) or threshold:K.",
            show_default="default; threshold:5 for train policy --level Os",
        ),
    ] = None
    models: Annotated[int, typer.Option(min=1, help="Number of averaged models of trees.")] = 12
    trees: Annotated[int, typer.Option(min=1, help="Trees per model.")] = 300
    hidden: HiddenOption = "128,64"
    steps: StepsOption = 20_000
    seed: SeedOption = 0

    def fit(self, threads: int | None, cache: Path | None = None) -> TreeImitation:
        """Return the fit; the cache is a folder that keeps networks."""
        from mlgo_gym.training import TreeImitation

        settings = network_settings(self.hidden, self.steps)
        base = self.base or "default"
        return TreeImitation(self.models, self.trees, settings, base, self.seed, threads or 1, cache)


def network_settings(hidden: str, steps: int) -> NetworkSettings:
    """Return the settings of a network with hidden layers such as `64,32`.

    Raises:
        MlgoError: a width is not a whole number ≥ 1.
    """
    from mlgo_gym.training import NetworkSettings

    try:
        widths = tuple(int(part) for part in hidden.split(",") if part.strip())
    except ValueError:
        widths = ()
    if min(widths, default=0) < 1:
        raise MlgoError(f"expected --hidden with widths ≥ 1 separated by commas, got {hidden!r}; use 64,32")
    return NetworkSettings(widths, steps)


def environment_arguments(compiler: CompilerOptions, *, callee_features: bool) -> dict[str, Any]:
    """Return the arguments of an environment, without the corpus."""
    return {**compiler.arguments(), **({"callee_features": True} if callee_features else {})}


@contextmanager
def training_monitor(output: Path) -> Iterator[Monitor]:
    """Show the progress of a training on standard error, and write curves for TensorBoard beside the output."""
    from mlgo_gym.training.monitor import Monitor, Progress

    with progress_over(None, "training") as shown:

        def show(progress: Progress) -> None:
            values = ", ".join(f"{name} {value:.4g}" for name, value in progress.values.items())
            shown.at(progress.done, progress.total, progress.stage, values)

        with Monitor(show, output.with_suffix(".curves")) as monitor:
            yield monitor


def margin_lines(chosen: Mapping[str, Any]) -> list[str]:
    """Return a line about each margin that was compared."""
    return [
        f"margin {tried['margin']:<4g} {tried['mean']:+.2%}, total {tried['total']:+.2%}, "
        f"{tried['worse']} of {tried['modules']} validation modules are larger"
        for tried in chosen["tried"]
    ]
