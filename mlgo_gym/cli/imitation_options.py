"""The options of every command that makes a network of labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlgo_gym.cli.network_options import HiddenOption, SeedOption, StepsOption, widths

if TYPE_CHECKING:
    from mlgo_gym.training.imitation import Imitation


@dataclass(frozen=True, slots=True)
class ImitationOptions:
    """How trees learn from labels, and a network from the trees; by default as the policies in the box were made."""

    base: Annotated[
        str, typer.Option(help="What the margin is about: default (clang's own choice) or threshold:K.")
    ] = "default"
    hold_out: Annotated[
        list[str] | None, typer.Option(help="A project that is not learned from but estimated on; may be given again.")
    ] = None
    power: Annotated[float, typer.Option(help="A label weighs its bytes to this power.")] = 0.8
    relative: Annotated[float, typer.Option(help="And is divided by the module's bytes to this one.")] = 0.5
    teachers: Annotated[int, typer.Option(min=1, help="So many models of trees are averaged.")] = 12
    trees: Annotated[int, typer.Option(min=1, help="The trees of each.")] = 300
    hidden: HiddenOption = "128,64"
    steps: StepsOption = 20000
    jobs: Annotated[int, typer.Option(min=1, help="How many processes, or threads.")] = 1
    seed: SeedOption = 0

    def settings(self, margin: float) -> Imitation:
        """Return what they stand for.

        Args:
            margin: how sure the network must be to deviate from the base.

        Raises:
            MlgoError: the widths are no widths.
        """
        from mlgo_gym.training.distillation import NetworkSettings
        from mlgo_gym.training.imitation import Imitation
        from mlgo_gym.training.teacher import TeacherSettings

        return Imitation(
            TeacherSettings(self.power, self.relative, self.teachers, self.trees),
            NetworkSettings(widths(self.hidden), self.steps),
            margin,
            self.base,
            tuple(self.hold_out or ()),
            self.seed,
            self.jobs,
        )


def margin_line(tried: Mapping[str, Any]) -> str:
    """Return what a margin gave, in a line."""
    return (
        f"margin {tried['margin']:<4g} {tried['mean']:+.2%}, total {tried['total']:+.2%}, worse on "
        f"{tried['worse']} of {tried['modules']} validation modules"
    )
