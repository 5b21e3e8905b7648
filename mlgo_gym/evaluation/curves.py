"""The inputs of a report: evaluations, and curves of trainings (TensorBoard event files, CSV files) and searches.

An event file is a sequence of TFRecords: eight bytes of length, four of its checksum, the data, four of its checksum.
The data are an `Event` (tensorflow/core/util/event.proto), of which step and `simple_value` are read.
"""

from __future__ import annotations

import csv
import io
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.result_folder import HEADER, load_result
from mlgo_gym.evaluation.search_result import SearchResult
from mlgo_gym.evaluation.statistics import Change
from mlgo_gym.storage.json_lines import read_json_lines
from mlgo_gym.storage.json_text import parse_json
from mlgo_gym.storage.untrusted_file import MAX_BYTES, open_untrusted, read_untrusted

_STEPS = ("time/total_timesteps", "total_timesteps", "global_step", "step", "steps", "iteration", "epoch")
"""CSV columns that may count steps; the first of them that is present does."""

_VARINT_BYTES = 10
"""Maximum length of a number in a protocol buffer; a longer one could take unbounded time."""

_FIXED = {1: struct.Struct("<d"), 5: struct.Struct("<f")}
"""Fields of fixed length in a protocol buffer, by kind."""

_Value = tuple[str, float, float]
"""Name, step and value."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A value over steps.

    Attributes:
        name: Name of the value.
        origin: Name of the training or search.
        points: Pairs of step and value, by step.
        unit: Unit of a step.
    """

    name: str
    origin: str
    points: tuple[tuple[float, float], ...]
    unit: str = "step"


def curves_in(folder: Path) -> list[Curve]:
    """Return the learning curves of TensorBoard event files and of files `progress.csv` below a folder.

    Raises:
        MlgoError: A file cannot be read.
    """
    curves: list[Curve] = []
    for pattern, read in (("events.out.tfevents*", read_events), ("progress.csv", read_csv)):
        for path in sorted(folder.rglob(pattern)):
            try:
                curves += _curves(read(path), path.parent.relative_to(folder.parent).as_posix())
            except (OSError, csv.Error, struct.error) as error:  # noqa: PERF203 - the error names the file
                raise MlgoError(f"{path}: expected the values of a training, got an error: {error}") from error
    return [curve for curve in curves if len(curve.points) > 1]


def _curves(values: Iterable[_Value], origin: str) -> list[Curve]:
    by_name: dict[str, dict[float, float]] = {}
    for name, step, value in values:
        if math.isfinite(value):
            by_name.setdefault(name, {})[step] = value
    return [Curve(name, origin, tuple(sorted(points.items()))) for name, points in by_name.items()]


def read_csv(path: Path) -> Iterator[_Value]:
    """Yield name, step and value of each number in a CSV file with a heading, such as stable-baselines3 writes."""
    with open_untrusted(path) as data, io.TextIOWrapper(data, encoding="utf-8", errors="replace", newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            step = next((value for name in _STEPS if (value := _number(row.get(name))) is not None), float(number))
            for name, text in row.items():
                value = _number(text)
                if name not in _STEPS and value is not None:
                    yield str(name), step, value


def _number(text: object) -> float | None:
    try:
        return float(str(text))
    except ValueError:
        return None


def read_events(path: Path) -> Iterator[_Value]:
    """Yield name, step and value of each scalar in a TensorBoard event file; a truncated last record is ignored."""
    data = read_untrusted(path)
    offset = 0
    while offset + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, offset)
        if offset + 12 + length > len(data):
            return
        yield from _event(data[offset + 12 : offset + 12 + length])
        offset += 16 + length


def _event(data: bytes) -> Iterator[_Value]:
    fields = dict(_fields(data))
    step, summary = fields.get(2, 0), fields.get(5)
    for _, value in _fields(summary) if isinstance(summary, bytes) else ():
        parts = dict(_fields(value)) if isinstance(value, bytes) else {}
        tag, scalar = parts.get(1), parts.get(2)
        if isinstance(tag, bytes) and isinstance(scalar, float) and isinstance(step, int):
            yield tag.decode(errors="replace"), float(step), scalar


def _fields(data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Yield number and value of each field of a protocol buffer message."""
    offset = 0
    while offset < len(data):
        key, offset = _varint(data, offset)
        kind = key & 7
        if kind == 0:
            value, offset = _varint(data, offset)
            yield key >> 3, value
        elif kind == 2:
            length, offset = _varint(data, offset)
            yield key >> 3, data[offset : offset + length]
            offset += length
        elif kind in _FIXED:
            yield key >> 3, _FIXED[kind].unpack_from(data, offset)[0]
            offset += _FIXED[kind].size
        else:
            return


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for position, byte in enumerate(data[offset : offset + _VARINT_BYTES]):
        offset += 1
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            break
    return value, offset


def is_search(path: Path) -> bool:
    """Return whether a file has results of `mlgo-gym search`."""
    try:
        with open_untrusted(path) as file:
            header = parse_json(file.readline(MAX_BYTES))
    except (OSError, ValueError):
        return False
    return isinstance(header, dict) and {"algorithm", "environment", "compiles"} <= header.keys()


def search_curve(path: Path) -> Curve | None:
    """Return the geometric-mean change of a search over the compiles of each module; None without results."""
    lines = [value for _, value in read_json_lines(path)]
    results = [result for value in lines[1:] if (result := SearchResult.from_json(value)).error is None]
    if not results:
        return None
    improvements = {number for result in results for number, _ in result.improvements}
    points = []
    for step in sorted({1, max(result.compiles for result in results), *improvements}):
        change = Change(tuple((result.cost_after(step), result.baseline) for result in results))
        points.append((float(step), change.mean))
    name = f"{lines[0]['algorithm']} ({len(results)} modules)"
    return Curve(name, path.stem, tuple(points), "compiles of each module")


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
        own = [curve for file in files if is_search(file) and (curve := search_curve(file)) is not None]
        own += curves_in(path) if path.is_dir() else []
        curves += own
        if name not in evaluations and not own:
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
