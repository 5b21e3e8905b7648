"""LLVM's training-log format: header and events, a decoder for pipes, a reader and a writer.

The format is that of llvm/Analysis/TrainingLogger.h: a JSON header line, then events, each a JSON line that may be
followed by raw tensors and a newline. Tensors may hold newline bytes, so they are read by length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import TrainingLogError
from mlgo_gym.llvm.tensor_spec import TensorSpec, record_dtype
from mlgo_gym.storage.json_text import parse_json

LONGEST_LINE = 1 << 20
"""Maximum size of a header or of an event's line, in bytes."""

LARGEST_OBSERVATION = 1 << 24
"""Maximum size of an observation, in bytes; observations are kept in memory."""

_NUMBERED = re.compile(rb'\{"(observation|outcome)":(\d{1,18})\}')


@dataclass(frozen=True, slots=True)
class LogHeader:
    """The first line of a log.

    Attributes:
        features: tensors of one observation, in order.
        advice: tensor of an answer in a channel; None in a log on disk.
        score: tensor of an outcome; None without outcomes.
    """

    features: tuple[TensorSpec, ...]
    advice: TensorSpec | None = None
    score: TensorSpec | None = None

    def __post_init__(self) -> None:
        names = [spec.name for spec in self.features]
        if not names:
            raise ValueError("a header needs at least one feature")
        if len(set(names)) != len(names):
            raise ValueError(f"a header names a feature twice: {sorted(n for n in set(names) if names.count(n) > 1)}")
        for size in (self.observation_bytes, 0 if self.score is None else self.score.nbytes):
            if size > LARGEST_OBSERVATION:
                raise ValueError(
                    f"expected observations of at most {LARGEST_OBSERVATION} bytes, got a header for {size}"
                )
        # A shape that NumPy cannot represent, such as one of 100 dimensions, fails here, not at the first observation.
        record_dtype(self.features)
        if self.score is not None:
            record_dtype([self.score])

    @property
    def observation_bytes(self) -> int:
        """The number of bytes of one observation."""
        return sum(spec.nbytes for spec in self.features)

    @property
    def dtype(self) -> np.dtype[np.void]:
        """The structured dtype of one observation."""
        return record_dtype(self.features)

    @classmethod
    def from_json(cls, value: object) -> LogHeader:
        """Return the header of a decoded JSON object; raise `ValueError` for another value."""
        if not isinstance(value, dict) or not isinstance(value.get("features"), list):
            raise ValueError("the first line must be a JSON object with a list of features")
        return cls(
            tuple(TensorSpec.from_json(feature) for feature in value["features"]),
            TensorSpec.from_json(value["advice"]) if "advice" in value else None,
            TensorSpec.from_json(value["score"]) if "score" in value else None,
        )

    def to_json(self) -> dict[str, object]:
        """Return the JSON object, keys in the order in which LLVM's `Logger::writeHeader` writes them."""
        value: dict[str, object] = {"features": [spec.to_json() for spec in self.features]}
        if self.score is not None:
            value["score"] = self.score.to_json()
        if self.advice is not None:
            value["advice"] = self.advice.to_json()
        return value


class Context(NamedTuple):
    """The decisions that follow belong to this function (empty for inlining)."""

    name: str
    offset: int


class Observation(NamedTuple):
    """One decision: its number within the context, and the bytes of the features in header order."""

    number: int
    payload: bytes
    offset: int


class Outcome(NamedTuple):
    """The score of the observation of the same number: the bytes of one `score` tensor."""

    number: int
    payload: bytes
    offset: int


Event = Context | Observation | Outcome


class LogDecoder:
    """Reads a log incrementally: bytes go in as they arrive, events come out.

    Attributes:
        header: Header of the log; None until its line is complete.
    """

    def __init__(self) -> None:
        self.header: LogHeader | None = None
        self._buffer = b""
        self._position = 0
        self._consumed = 0
        self._next_index: dict[str, int] = {}
        self._context: str | None = None
        self._last_observation = -1
        self._observation_bytes = 0

    @property
    def offset(self) -> int:
        """Position in the log of the first byte that belongs to no event yet."""
        return self._consumed + self._position

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the log."""
        rest = self._buffer[self._position :]
        self._consumed += self._position
        self._buffer = rest + data if rest else data
        self._position = 0

    def take_observation(self, data: bytes) -> tuple[int, bytes] | None:
        """Take the next bytes of the log, and return number and payload, if they are exactly the next observation.

        This is faster than `feed()` and `next_event()`, and almost every read from a channel is such a case.
        """
        context = self._context
        if context is None or self._position != len(self._buffer):
            return None
        number = self._next_index.get(context, 0)
        line = b'{"observation":%d}\n' % number
        length = len(data)
        if length != len(line) + self._observation_bytes + 1 or data[-1] != 10 or not data.startswith(line):
            return None
        self._consumed += self._position + length
        self._position, self._buffer = 0, b""
        self._next_index[context] = number + 1
        self._last_observation = number
        return number, data[len(line) : -1]

    def next_event(self) -> Event | None:
        """Return the next event, or None if more bytes are needed.

        Raises:
            TrainingLogError: the bytes violate the format; it contains the offset of the line.
        """
        if self.header is None:
            self._read_header()
        if self.header is None or (end := self._line_end()) < 0:
            return None
        offset = self.offset
        kind, value = self._parse(self._buffer[self._position : end])
        if kind == "context":
            self._context, self._last_observation = value, -1
            self._position = end + 1
            return Context(value, offset)
        if kind == "observation":
            if self._context is None:
                raise self._fail("expected a context, got an observation")
            expected = self._next_index.get(self._context, 0)
            if value != expected:
                raise self._fail(f"expected observation {expected} of context {self._context!r}, got {value}")
            if (payload := self._take_payload(end, self._observation_bytes)) is None:
                return None
            self._next_index[self._context] = value + 1
            self._last_observation = value
            return Observation(value, payload, offset)
        if self.header.score is None:
            raise self._fail("expected no outcome, because the header has no score, got one")
        if value != self._last_observation:
            raise self._fail(f"expected an outcome after its observation, got outcome {value}")
        if (payload := self._take_payload(end, self.header.score.nbytes)) is None:
            return None
        self._last_observation = -1
        return Outcome(value, payload, offset)

    def finish(self) -> None:
        """Check that the log is complete; raise `TrainingLogError` if it ends within its header or an event."""
        if pending := len(self._buffer) - self._position:
            raise self._fail(f"the log is cut off: its last {pending} bytes are no whole event")
        if self.header is None:
            raise self._fail("expected a header, got an empty log")

    def _fail(self, message: str) -> TrainingLogError:
        return TrainingLogError(message, self.offset)

    def _line_end(self) -> int:
        end = self._buffer.find(b"\n", self._position, self._position + LONGEST_LINE)
        if end < 0 and len(self._buffer) - self._position >= LONGEST_LINE:
            raise self._fail(f"expected a JSON line of at most {LONGEST_LINE} bytes, got a longer one")
        return end

    def _json(self, line: bytes) -> object:
        try:
            return parse_json(line)
        except ValueError as error:
            raise self._fail(f"expected a JSON line, got {line[:80]!r}: {error}") from None

    def _read_header(self) -> None:
        if (end := self._line_end()) < 0:
            return
        value = self._json(self._buffer[self._position : end])
        try:
            self.header = LogHeader.from_json(value)
        except ValueError as error:
            raise self._fail(str(error)) from None
        self._observation_bytes = self.header.observation_bytes
        self._position = end + 1

    def _parse(self, line: bytes) -> tuple[str, Any]:
        """Return the kind of an event, and its number or its context."""
        if (numbered := _NUMBERED.fullmatch(line)) is not None:
            return numbered[1].decode(), int(numbered[2])
        event = self._json(line)
        kind, value = next(iter(event.items())) if isinstance(event, dict) and len(event) == 1 else ("", None)
        if kind not in ("context", "observation", "outcome"):
            raise self._fail(f"expected a context, an observation or an outcome, got {line[:80]!r}")
        if kind == "context" and not isinstance(value, str):
            raise self._fail(f"expected a string as the context, got {value!r}")
        if kind != "context" and (type(value) is not int or value < 0):
            raise self._fail(f"expected the number of an {kind}, got {line[:80]!r}")
        return kind, value

    def _take_payload(self, end: int, size: int) -> bytes | None:
        """Take the bytes of tensors after the line that ends at `end`; None if they are incomplete."""
        stop = end + 1 + size
        if len(self._buffer) <= stop:
            return None
        if self._buffer[stop] != 10:
            following = self._buffer[stop : stop + 1]
            raise TrainingLogError(
                f"expected {size} bytes of tensors and a newline, got {following!r}", self._consumed + stop
            )
        self._position = stop + 1
        return self._buffer[end + 1 : stop]


class Record(NamedTuple):
    """One decision of a log on disk.

    `features` is a structured scalar array of shape () with the header's dtype; `outcome` has the score's shape and
    dtype, or is None where the log has no outcome for this decision.
    """

    context: str
    number: int
    features: npt.NDArray[np.void]
    outcome: npt.NDArray[np.generic] | None


def read_events(stream: IO[bytes], decoder: LogDecoder | None = None, *, chunk: int = 1 << 20) -> Iterator[Event]:
    """Yield the events of a binary stream that blocks, such as a file, until it ends.

    Args:
        stream: the stream.
        decoder: the decoder, for a caller that needs its `header`.
        chunk: number of bytes per read.

    Raises:
        TrainingLogError: the log violates the format or is cut off.
    """
    decoder = decoder or LogDecoder()
    while data := stream.read(chunk):
        decoder.feed(data)
        while (event := decoder.next_event()) is not None:
            yield event
    decoder.finish()


def read_log(stream: IO[bytes]) -> tuple[LogHeader, Iterator[Record]]:
    """Return the header of a log, and an iterator over its decisions.

    Raises:
        TrainingLogError: the log is malformed or cut off; the iterator raises it for errors behind the header.
    """
    decoder = LogDecoder()
    events = read_events(stream, decoder)
    first = next(events, None)
    assert decoder.header is not None  # finish() raises where there is none
    return decoder.header, _records(decoder.header, chain((first,), events, (None,)))


def _records(header: LogHeader, events: Iterator[Event | None]) -> Iterator[Record]:
    dtype, context = header.dtype, ""
    # The outcome of an observation follows it directly.
    for event, following in pairwise(events):
        if isinstance(event, Context):
            context = event.name
        elif isinstance(event, Observation):
            outcome = None
            if isinstance(following, Outcome):
                assert header.score is not None
                outcome = np.frombuffer(following.payload, header.score.dtype).reshape(header.score.shape)
            yield Record(context, event.number, np.frombuffer(event.payload, dtype).reshape(()), outcome)


class LogWriter:
    """Writes a log to a binary stream, byte for byte as LLVM's `Logger` does; the header is written at once."""

    def __init__(self, stream: IO[bytes], header: LogHeader) -> None:
        self._stream = stream
        self._header = header
        self._context: str | None = None
        self._next_index: dict[str, int] = {}
        self._current = -1
        self._line(header.to_json())

    def _line(self, value: dict[str, object]) -> None:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        # As LLVM does, which writes the replacement character for bytes of a name that are no UTF-8.
        valid = text.encode(errors="surrogateescape").decode(errors="replace")
        self._stream.write(valid.encode() + b"\n")

    def context(self, name: str) -> None:
        """Begin a context; every observation belongs to one."""
        self._context, self._current = name, -1
        self._line({"context": name})

    def observation(self, payload: bytes) -> int:
        """Write the bytes of an observation's tensors, and return its number; raise `ValueError` for another size."""
        if self._context is None:
            raise ValueError("an observation needs a context: call context() first")
        if len(payload) != self._header.observation_bytes:
            raise ValueError(f"an observation has {self._header.observation_bytes} bytes, found {len(payload)}")
        self._current = self._next_index.get(self._context, 0)
        self._next_index[self._context] = self._current + 1
        self._line({"observation": self._current})
        self._stream.write(payload + b"\n")
        return self._current

    def outcome(self, score: npt.ArrayLike) -> None:
        """Write the score of the last observation; raise `ValueError` for another size, a second one, or no score."""
        spec = self._header.score
        if spec is None:
            raise ValueError("the header has no score: outcomes cannot be written")
        if self._current < 0:
            raise ValueError("an outcome follows an observation, once: write the observation first")
        array = np.asarray(score, spec.dtype)
        if array.size != spec.size:
            raise ValueError(f"tensor {spec.name!r} has {spec.size} elements, found {array.size}")
        self._line({"outcome": self._current})
        self._stream.write(array.tobytes() + b"\n")
        self._current = -1
