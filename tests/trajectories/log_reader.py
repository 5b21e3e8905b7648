"""A reader of training logs that knows nothing but the documented format, as readers of other projects do.

The first line is JSON: the features' TensorSpecs, and `score` where outcomes follow observations. Then come lines of
JSON with one key each: `context`; `observation`, whose number restarts with each context, followed by the tensors back
to back and a newline; `outcome`, with the number of its observation, followed by the score and a newline.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from math import prod
from typing import IO, Any, NamedTuple

FORMATS = {"int64_t": "q", "int32_t": "i", "float": "f", "double": "d", "int8_t": "b"}


class Row(NamedTuple):
    """One decision: its context, its number in it, its features by name as lists of numbers, and its score."""

    context: str
    number: int
    features: dict[str, list[float]]
    score: list[float]


def read_rows(stream: IO[bytes]) -> Iterator[Row]:
    header = json.loads(stream.readline())
    context = None
    while line := stream.readline():
        event = json.loads(line)
        if "context" in event:
            context = event["context"]
            continue
        assert context is not None, "an observation before any context"
        features = {spec["name"]: _tensor(stream, spec) for spec in header["features"]}
        assert stream.read(1) == b"\n"
        outcome = json.loads(stream.readline())
        assert outcome == {"outcome": event["observation"]}
        score = _tensor(stream, header["score"])
        assert stream.read(1) == b"\n"
        yield Row(context, event["observation"], features, score)


def _tensor(stream: IO[bytes], spec: dict[str, Any]) -> list[float]:
    layout = struct.Struct(f"<{prod(spec['shape'])}{FORMATS[spec['type']]}")
    return list(layout.unpack(stream.read(layout.size)))
