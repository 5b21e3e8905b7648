"""LLVM's training-log format: tensors, header and events, a decoder for pipes and a writer.

The format is that of llvm/Analysis/TrainingLogger.h: a JSON header line, then events, each a JSON line that may be
followed by raw tensors and a newline. Tensors may hold newline bytes, so they are read by length.
"""

import json
import math
import re
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlgo_gym.cache import parse_json
from mlgo_gym.errors import TrainingLogError

LONGEST_LINE = 1 << 20
"""Maximum size of a header or of an event's line, in bytes."""

LARGEST_OBSERVATION = 1 << 24
"""Maximum size of an observation, in bytes; observations are kept in memory."""

_NUMBERED = re.compile(rb'\{"observation":(\d{1,18})\}')


SCALAR_TYPES: dict[str, np.dtype[Any]] = {
    "float": np.dtype("<f4"),
    "double": np.dtype("<f8"),
    "int8_t": np.dtype("<i1"),
    "uint8_t": np.dtype("<u1"),
    "int16_t": np.dtype("<i2"),
    "uint16_t": np.dtype("<u2"),
    "int32_t": np.dtype("<i4"),
    "uint32_t": np.dtype("<u4"),
    "int64_t": np.dtype("<i8"),
    "uint64_t": np.dtype("<u8"),
}
"""The scalar types of `SUPPORTED_TENSOR_TYPES` in llvm/Analysis/TensorSpec.h, little-endian as every supported host."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One named tensor (llvm/Analysis/TensorSpec.h).

    Attributes:
        name: the feature's name.
        type: the C++ name of the scalar type, a key of `SCALAR_TYPES`.
        shape: the dimensions; at least one, each at least 1.
        port: TensorFlow's output port; kept, never used.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    port: int = 0

    def __post_init__(self) -> None:
        if self.type not in SCALAR_TYPES:
            raise ValueError(f"tensor {self.name!r} has type {self.type!r}; known are {', '.join(SCALAR_TYPES)}")
        if not self.shape or any(extent < 1 for extent in self.shape):
            raise ValueError(f"tensor {self.name!r} has shape {list(self.shape)}; every extent must be at least 1")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of one element."""
        return SCALAR_TYPES[self.type]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes of the whole tensor."""
        return self.size * self.dtype.itemsize

    @property
    def struct_format(self) -> str:
        """The format of the tensor for `struct`, without the byte order."""
        # In struct, l has four bytes where a byte order is given.
        return f"{self.size}{self.dtype.char.replace('l', 'q').replace('L', 'Q')}"

    @classmethod
    def from_json(cls, value: object) -> "TensorSpec":
        """Return the tensor of `{"name": str, "type": str, "shape": [int, …], "port": int}`, or raise ValueError."""
        fields = value if isinstance(value, dict) else {}
        name, kind, shape, port = (fields.get(key, 0) for key in ("name", "type", "shape", "port"))
        is_shape = isinstance(shape, list) and all(type(extent) is int for extent in shape)
        if not isinstance(name, str) or not isinstance(kind, str) or type(port) is not int or not is_shape:
            raise ValueError(f"expected a tensor with a name, a type, a list of integers as shape, got {value!r}")
        return cls(name, kind, tuple(shape), port)

    def to_json(self) -> dict[str, object]:
        """Return the JSON object that LLVM's `TensorSpec::toJSON` writes, keys in its order."""
        return {"name": self.name, "type": self.type, "port": self.port, "shape": list(self.shape)}


@dataclass(frozen=True, slots=True)
class LogHeader:
    """The first line of a log.

    Attributes:
        features: tensors of one observation, in order.
        advice: tensor of an answer in a channel; None in a log on disk.
        score: tensor of an outcome; None without outcomes.
        dtype: structured dtype of one observation.
    """

    features: tuple[TensorSpec, ...]
    advice: TensorSpec | None = None
    score: TensorSpec | None = None
    dtype: np.dtype[np.void] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        names = [spec.name for spec in self.features]
        if not names:
            raise ValueError("a header needs at least one feature")
        if len(set(names)) != len(names):
            raise ValueError(f"a header names a feature twice: {sorted(n for n in set(names) if names.count(n) > 1)}")
        if self.observation_bytes > LARGEST_OBSERVATION:
            raise ValueError(
                f"expected observations of at most {LARGEST_OBSERVATION} bytes, got a header for "
                f"{self.observation_bytes}"
            )
        # A shape that NumPy cannot represent, such as one of 100 dimensions, fails here, not at the first observation.
        dtype = np.dtype([(spec.name, spec.dtype, spec.shape) for spec in self.features])
        object.__setattr__(self, "dtype", dtype)

    @property
    def observation_bytes(self) -> int:
        """The number of bytes of one observation."""
        return sum(spec.nbytes for spec in self.features)

    @classmethod
    def from_json(cls, value: object) -> "LogHeader":
        """Return the header of a channel from its decoded JSON; raise `ValueError` for another value."""
        if not isinstance(value, dict) or not isinstance(value.get("features"), list):
            raise ValueError("the first line must be a JSON object with a list of features")
        return cls(
            tuple(TensorSpec.from_json(feature) for feature in value["features"]),
            TensorSpec.from_json(value["advice"]) if "advice" in value else None,
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


class Observation(NamedTuple):
    """One decision: its number within the context, and the bytes of the features in header order."""

    number: int
    payload: bytes


class LogDecoder:
    """Reads the log of a channel incrementally: bytes go in as they arrive, events come out.

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
        self._observation_bytes = 0

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
        self._consumed, self._position, self._buffer = self._consumed + self._position + length, 0, b""
        self._next_index[context] = number + 1
        return number, data[len(line) : -1]

    def next_event(self) -> Context | Observation | None:
        """Return the next event, or None if more bytes are needed.

        Raises `TrainingLogError` if the bytes violate the format; it contains the offset of the line.
        """
        if self.header is None:
            self._read_header()
        if self.header is None or (end := self._line_end()) < 0:
            return None
        value = self._parse(self._buffer[self._position : end])
        if isinstance(value, str):
            self._context = value
            self._position = end + 1
            return Context(value)
        if self._context is None:
            raise self._fail("expected a context, got an observation")
        expected = self._next_index.get(self._context, 0)
        if value != expected:
            raise self._fail(f"expected observation {expected} of context {self._context!r}, got {value}")
        stop = end + 1 + self._observation_bytes
        if len(self._buffer) <= stop:
            return None
        if self._buffer[stop] != 10:
            self._position, following = stop, self._buffer[stop : stop + 1]
            raise self._fail(f"expected {self._observation_bytes} bytes of tensors and a newline, got {following!r}")
        self._position = stop + 1
        self._next_index[self._context] = value + 1
        return Observation(value, self._buffer[end + 1 : stop])

    def _fail(self, message: str) -> TrainingLogError:
        return TrainingLogError(message, self._consumed + self._position)

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

    def _parse(self, line: bytes) -> int | str:
        """Return the number of an observation, or the name of a context."""
        if (numbered := _NUMBERED.fullmatch(line)) is not None:
            return int(numbered[1])
        event = self._json(line)
        kind, value = next(iter(event.items())) if isinstance(event, dict) and len(event) == 1 else ("", None)
        if (kind == "context" and isinstance(value, str)) or (kind == "observation" and type(value) is int):
            return value
        raise self._fail(f"expected a context with a name or an observation with a number, got {line[:80]!r}")


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
