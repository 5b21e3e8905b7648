"""What a report is made of: evaluations, and what trainings and searches have left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.result import EvaluationResult, load_result
from mlgo_gym.evaluation.result_folder import HEADER
from mlgo_gym.reporting.curves import Curve, curves_in, is_search, search_curve
from mlgo_gym.reporting.run_names import run_names


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a report is made of.

    Attributes:
        evaluations: by what they are called.
        curves: of trainings and searches.
    """

    evaluations: dict[str, EvaluationResult]
    curves: tuple[Curve, ...]


def read_inputs(paths: Sequence[Path]) -> Inputs:
    """Return what some folders and files hold.

    A folder may hold an evaluation (the `--output` of `evaluate`), learning curves (TensorBoard's event files,
    `progress.csv`) or results of searches (`*.jsonl`), also several of them; a file may be the results of a search.

    Raises:
        MlgoError: one of them holds nothing of the kind, or is damaged.
    """
    evaluations: dict[str, EvaluationResult] = {}
    curves: list[Curve] = []
    for name, path in run_names(paths).items():
        found = False
        if (path / HEADER).exists():
            evaluations[name] = load_result(path)
            found = True
        inside = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
        there = [curve for file in inside if is_search(file) and (curve := search_curve(file)) is not None]
        there += curves_in(path) if path.is_dir() else []
        curves += there
        if not found and not there:
            raise MlgoError(
                f"{path} holds no results: the --output of `evaluate` was wanted, or of a search or a training"
            )
    return Inputs(evaluations, tuple(curves))
