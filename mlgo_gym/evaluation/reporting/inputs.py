"""The inputs of a report: evaluations, and curves of trainings and searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.reporting.curves import Curve, curves_in, is_search, search_curve
from mlgo_gym.evaluation.result import EvaluationResult, load_result
from mlgo_gym.evaluation.result_folder import HEADER


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a report: evaluations by name, and curves of trainings and searches."""

    evaluations: dict[str, EvaluationResult]
    curves: tuple[Curve, ...]


def read_inputs(paths: Sequence[Path]) -> Inputs:
    """Return the contents of folders and files.

    A folder may contain an evaluation (the `--output` of `evaluate`), learning curves (TensorBoard event files,
    `progress.csv`) and results of searches (`*.jsonl`). A file may contain the results of a search.

    Raises:
        MlgoError: A path has none of these, is named twice, or is damaged.
    """
    evaluations: dict[str, EvaluationResult] = {}
    curves: list[Curve] = []
    for name, path in run_names(paths).items():
        if (path / HEADER).exists():
            evaluations[name] = load_result(path)
        files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
        found = [curve for file in files if is_search(file) and (curve := search_curve(file)) is not None]
        found += curves_in(path) if path.is_dir() else []
        curves += found
        if name not in evaluations and not found:
            raise MlgoError(f"expected results in {path}, got none; name an output of `evaluate`, `train` or `search`")
    return Inputs(evaluations, tuple(curves))


def run_names(paths: Sequence[Path]) -> dict[str, Path]:
    """Return paths by name: as many last parts of each path as distinguish it from the others, mostly one.

    Raises:
        MlgoError: A path is named twice.
    """
    resolved = [path.resolve() for path in paths]
    for path, full in zip(paths, resolved, strict=True):
        if resolved.count(full) > 1:
            raise MlgoError(f"expected each path once, got {str(path)!r} twice; name it once")
    length = 1
    while len({path.parts[-length:] for path in resolved}) < len(resolved):
        length += 1
    return {"/".join(full.parts[-length:]).lstrip("/"): path for path, full in zip(paths, resolved, strict=True)}
