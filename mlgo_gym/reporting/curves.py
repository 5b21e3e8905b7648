"""Curves that trainings and searches have left: TensorBoard's event files, CSV files of values, results of searches.

An event file is a sequence of TFRecords (eight bytes of length, four of its checksum, the data, four of theirs), each
an `Event` (tensorflow/core/util/event.proto); only its step and the `simple_value` of its summary are read.
"""

from __future__ import annotations

import csv
import io
import math
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.errors import MlgoError
from mlgo_gym.search.search_result import SearchResult
from mlgo_gym.storage.foreign_file import LARGEST, open_foreign, read_foreign
from mlgo_gym.storage.json_lines import read_json_lines
from mlgo_gym.storage.json_text import parse_json

_STEPS = ("time/total_timesteps", "total_timesteps", "global_step", "step", "steps", "iteration", "epoch")
"""The columns of a CSV file that count how far a training is, the first that is there."""

_VARINT_BITS = 70
"""Ten bytes of seven bits hold any number of a protocol buffer; more would take time without end to put together."""

_Value = tuple[str, float, float]
"""A name, a step and a value."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A value over steps.

    Attributes:
        name: what it is a value of.
        origin: the run that it is of.
        points: steps and values, by step.
        unit: what a step is.
    """

    name: str
    origin: str
    points: tuple[tuple[float, float], ...]
    unit: str = "step"


def curves_in(folder: Path) -> list[Curve]:
    """Return the learning curves below a folder: of TensorBoard's event files, and of files `progress.csv`.

    Raises:
        MlgoError: one cannot be read.
    """
    found: list[Curve] = []
    for path in sorted(folder.rglob("events.out.tfevents*")):
        found += _curves(_all(read_events, path), _origin(path, folder))
    for path in sorted(folder.rglob("progress.csv")):
        found += _curves(_all(read_csv, path), _origin(path, folder))
    return [curve for curve in found if len(curve.points) > 1]


def _all(read: Callable[[Path], Iterator[_Value]], path: Path) -> list[_Value]:
    try:
        return list(read(path))
    except (OSError, csv.Error, struct.error) as error:
        raise MlgoError(f"{path} was to be the values of a training, and cannot be read: {error}") from error


def _origin(path: Path, folder: Path) -> str:
    inside = path.parent.relative_to(folder).as_posix()
    return folder.name if inside == "." else f"{folder.name}/{inside}"


def _curves(values: Iterable[_Value], origin: str) -> list[Curve]:
    by_name: dict[str, dict[float, float]] = {}
    for name, step, value in values:
        if math.isfinite(value):
            by_name.setdefault(name, {})[step] = value
    return [Curve(name, origin, tuple(sorted(points.items()))) for name, points in by_name.items()]


def read_csv(path: Path) -> Iterator[_Value]:
    """Yield name, step and value of each number in a CSV file with a heading, such as stable-baselines3 writes."""
    with open_foreign(path) as data, io.TextIOWrapper(data, encoding="utf-8", errors="replace", newline="") as file:
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
    """Yield name, step and value of each scalar in an event file of TensorBoard, up to what a kill has cut off."""
    data = read_foreign(path)
    place = 0
    while place + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, place)
        if place + 12 + length > len(data):
            return
        yield from _event(data[place + 12 : place + 12 + length])
        place += 16 + length


def _event(data: bytes) -> Iterator[_Value]:
    fields = list(_fields(data))
    step = next((float(value) for number, value in fields if number == 2 and isinstance(value, int)), 0.0)
    for number, summary in fields:
        if number == 5 and isinstance(summary, bytes):
            for inner, each in _fields(summary):
                if inner == 1 and isinstance(each, bytes):
                    parts = dict(_fields(each))
                    tag, value = parts.get(1), parts.get(2)
                    if isinstance(tag, bytes) and isinstance(value, float):
                        yield tag.decode(errors="replace"), step, value


def _fields(data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Yield number and value of each field of a protocol buffer message."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(data, place)
            yield key >> 3, value
        elif kind == 1:
            yield key >> 3, struct.unpack_from("<d", data, place)[0]
            place += 8
        elif kind == 2:
            length, place = _varint(data, place)
            yield key >> 3, data[place : place + length]
            place += length
        elif kind == 5:
            yield key >> 3, struct.unpack_from("<f", data, place)[0]
            place += 4
        else:
            return


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift, byte in zip(range(0, _VARINT_BITS, 7), data[place : place + _VARINT_BITS // 7], strict=False):
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, place


def is_search(path: Path) -> bool:
    """Return whether a file holds the results of `mlgo-gym search`."""
    try:
        with open_foreign(path) as file:
            header = parse_json(file.readline(LARGEST))
    except (OSError, ValueError):
        return False
    return isinstance(header, dict) and {"algorithm", "environment", "compiles"} <= header.keys()


def search_curve(path: Path) -> Curve | None:
    """Return what a search has come to, in geometric mean over its modules, after so many compiles of each.

    None where no module has a result.
    """
    lines = [value for _, value in read_json_lines(path)]
    results = [each for value in lines[1:] if (each := SearchResult.from_json(value)).error is None]
    if not results:
        return None
    steps = sorted({1, *(number for each in results for number, _ in each.improvements)})
    most = max(each.compiles for each in results)
    points = []
    for step in (*steps, *([most] if most > steps[-1] else ())):
        logarithms = [math.log((1 + each.cost_after(step)) / (1 + each.baseline)) for each in results]
        points.append((float(step), math.expm1(math.fsum(logarithms) / len(logarithms))))
    name = f"{lines[0]['algorithm']} ({len(results)} modules)"
    return Curve(name, path.stem, tuple(points), "compiles of each module")
