"""The inputs of a report: evaluations by name, and the curves of searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.result_folder import HEADER, load_result
from mlgo_gym.evaluation.search_result import SearchResult
from mlgo_gym.evaluation.statistics import Change
from mlgo_gym.storage.json_lines import read_json_lines
from mlgo_gym.storage.json_text import parse_json
from mlgo_gym.storage.untrusted_file import MAX_BYTES, open_untrusted


@dataclass(frozen=True, slots=True)
class SearchCurve:
    """The geometric-mean change of the modules of a search, for some numbers of compiles of each module."""

    name: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a report: evaluations by name, and curves of searches."""

    evaluations: dict[str, EvaluationResult]
    searches: tuple[SearchCurve, ...]


def read_inputs(paths: Sequence[Path]) -> Inputs:
    """Return the evaluations and the searches in outputs of `evaluate` and `search`; a folder may contain both.

    Raises:
        MlgoError: A path has neither, is named twice, or is damaged.
    """
    evaluations: dict[str, EvaluationResult] = {}
    searches: list[SearchCurve] = []
    for name, path in run_names(paths).items():
        if (path / HEADER).exists():
            evaluations[name] = load_result(path)
        files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
        own = [curve for file in files if is_search(file) and (curve := search_curve(file)) is not None]
        searches += own
        if name not in evaluations and not own:
            raise MlgoError(f"expected results in {path}, got none; name an output of `evaluate` or `search`")
    return Inputs(evaluations, tuple(searches))


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


def is_search(path: Path) -> bool:
    """Return whether a file has results of `mlgo-gym search`."""
    try:
        with open_untrusted(path) as file:
            header = parse_json(file.readline(MAX_BYTES))
    except (OSError, ValueError):
        return False
    return isinstance(header, dict) and {"algorithm", "environment", "compiles"} <= header.keys()


def search_curve(path: Path) -> SearchCurve | None:
    """Return the curve of a file of `mlgo-gym search`; None without results."""
    header, *lines = (value for _, value in read_json_lines(path))
    results = [result for value in lines if (result := SearchResult.from_json(value)).error is None]
    if not results:
        return None
    steps = {1, max(result.compiles for result in results)}
    steps |= {number for result in results for number, _ in result.improvements}
    changes = {step: Change(tuple((result.cost_after(step), result.baseline) for result in results)) for step in steps}
    points = tuple((step, changes[step].mean) for step in sorted(steps))
    return SearchCurve(f"{path.stem}: {header['algorithm']} ({len(results)} modules)", points)
