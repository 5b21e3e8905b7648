"""The option that takes several policies as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mlgo_gym.evaluation.result import EvaluationResult

SmallestOption = Annotated[
    bool, typer.Option("--smallest", help="Also show all these policies as one: of their objects the smallest is kept.")
]


def and_smallest(result: EvaluationResult, *, wanted: bool) -> EvaluationResult:
    """Return the results, with those of all policies as one where that is wanted."""
    from mlgo_gym.evaluation.smallest import with_smallest

    return with_smallest(result) if wanted else result
