"""LLVM's training log, which is also what clang writes into an interactive channel: tensors, header and events.

The format is that of llvm/Analysis/TrainingLogger.h: a JSON header line, then events, each a JSON line that may be
followed by raw tensors and a newline. Tensors may hold newline bytes, so they are read by length. LLVM always writes a
line in one form, which this module reads without `json`: its import takes as long as the compile of a small file.
"""

from __future__ import annotations

import os

from mlgo_clang.errors import ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import ClassVar

    from typing_extensions import Self

LONGEST_LINE = 1 << 20
"""Maximum size of a header or of an event's line, in bytes."""

LARGEST_OBSERVATION = 1 << 24
"""Maximum size of an observation, in bytes; observations are kept in memory."""

SCALARS = {
    "float": ("f", 4), "double": ("d", 8), "int8_t": ("b", 1), "uint8_t": ("B", 1), "int16_t": ("h", 2),
    "uint16_t": ("H", 2), "int32_t": ("i", 4), "uint32_t": ("I", 4), "int64_t": ("q", 8), "uint64_t": ("Q", 8),
}  # fmt: skip
"""Format of `struct` and bytes of each scalar type of `SUPPORTED_TENSOR_TYPES` in llvm/Analysis/TensorSpec.h.

They are little-endian, as every supported host.
"""


CALLEE_SOURCES = ("callee_basic_block_count", "callee_users", "node_count")
"""Features of clang that callee features are computed from, in the order of `callee_prediction.c`."""


def open_pipes(base: str) -> tuple[int, int]:
    """Make the FIFOs of a channel, `base.in` and `base.out`; return descriptors for advice and for the log."""
    os.mkfifo(f"{base}.in", 0o600)
    os.mkfifo(f"{base}.out", 0o600)
    # A blocking open would wait for clang; O_RDWR provides a reader from the start.
    advice = os.open(f"{base}.in", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return advice, os.open(f"{base}.out", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except BaseException:
        os.close(advice)
        raise


def silence(milliseconds: int) -> ProtocolError:
    """Return the error of a clang that did nothing for some time."""
    return ProtocolError(
        f"clang gave no sign of life for {milliseconds / 1000:g} s while a policy decided; raise --mlgo-timeout"
    )


class _Json:
    """A value that its JSON, as LLVM writes it, identifies."""

    json: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Json) and self.json == other.json

    def __hash__(self) -> int:
        return hash(self.json)

    def __repr__(self) -> str:
        return self.json


class Tensor(_Json):
    """One named tensor (llvm/Analysis/TensorSpec.h).

    Attributes:
        type: C++ name of the scalar type, a key of `SCALARS`.
        shape: Dimensions; at least one, each at least 1.
        port: TensorFlow's output port; kept, never used.
        size, nbytes: Number of elements, and of bytes.
        json: JSON as LLVM's `TensorSpec::toJSON` writes it.
    """

    def __init__(self, name: str, type: str, shape: Sequence[int], port: int = 0) -> None:  # noqa: A002 - LLVM's name
        if type not in SCALARS:
            raise ValueError(f"tensor {name!r} has type {type!r}; known are {', '.join(SCALARS)}")
        if not shape or any(extent < 1 for extent in shape):
            raise ValueError(f"tensor {name!r} has shape {list(shape)}; every extent must be at least 1")
        self.name, self.type, self.shape, self.port = name, type, tuple(shape), port
        self.size = 1
        for extent in shape:
            self.size *= extent
        self.nbytes = self.size * SCALARS[type][1]
        extents = ",".join(map(str, shape))
        self.json = f'{{"name":"{name}","type":"{type}","port":{port},"shape":[{extents}]}}'

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the tensor of its `json`, whose last brace may be missing; the caller checks the form."""
        name, _, rest = text.removeprefix('{"name":"').partition('","type":"')
        kind, _, rest = rest.partition('","port":')
        port, _, shape = rest.partition(',"shape":[')
        try:
            extents = [int(extent) for extent in shape.rstrip("]}").split(",")]
            return cls(name, kind, extents, int(port))
        except ValueError as error:
            message = f"expected a tensor with a name, a type, a port and a shape, got {text[:80]!r}: {error}"
            raise ValueError(message) from None

    @property
    def struct_format(self) -> str:
        """Format of the tensor for `struct`, without the byte order."""
        return f"{self.size}{SCALARS[self.type][0]}"


class Header(_Json):
    """The first line of a log.

    Attributes:
        features: Tensors of one observation, in order.
        advice: Tensor of an answer in a channel; None in a log on disk.
        score: Tensor of an outcome; None without outcomes.
        tensors, offsets: Features, and their offsets in an observation, by name.
        observation_bytes: Number of bytes of one observation.
        json: JSON as LLVM's `Logger::writeHeader` writes it.
    """

    tensor_type: ClassVar[type[Tensor]] = Tensor

    def __init__(self, features: Sequence[Tensor], advice: Tensor | None = None, score: Tensor | None = None) -> None:
        self.features, self.advice, self.score = tuple(features), advice, score
        self.tensors = {tensor.name: tensor for tensor in features}
        self.offsets: dict[str, int] = {}
        self.observation_bytes = 0
        for tensor in features:
            if tensor.name in self.offsets:
                raise ValueError(f"expected features with different names, got {tensor.name!r} twice")
            self.offsets[tensor.name] = self.observation_bytes
            self.observation_bytes += tensor.nbytes
        if not features:
            raise ValueError("expected at least one feature, got none")
        if self.observation_bytes > LARGEST_OBSERVATION:
            raise ValueError(
                f"expected observations of at most {LARGEST_OBSERVATION} bytes, got a header for "
                f"{self.observation_bytes}"
            )
        others = {"score": score, "advice": advice}
        values = "".join(f',"{name}":{tensor.json}' for name, tensor in others.items() if tensor is not None)
        self.json = f'{{"features":[{",".join(tensor.json for tensor in self.features)}]{values}}}'

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Return the header of a line without its newline; raise `ValueError` for one that LLVM does not write."""
        text = line.decode(errors="replace")
        message = f"expected a header of features and advice, got {line[:80]!r}"
        if not text.startswith('{"features":[{') or not text.endswith(("]}]}", "]}}")):
            raise ValueError(message)
        features, _, advice = text.removeprefix('{"features":[').partition('],"advice":')
        header = cls(
            [cls.tensor_type.parse(tensor) for tensor in features.split("},")],
            cls.tensor_type.parse(advice) if advice else None,
        )
        if header.json != text:
            raise ValueError(message)
        return header

    def check_advice(self, scalar: str) -> None:
        """Raise `ProtocolError` if the advice is not one element of a scalar type."""
        if self.advice is None or (self.advice.type, self.advice.size) != (scalar, 1):
            raise ProtocolError(f"expected advice of one {scalar} in the header, got {self.advice}")


_CONTEXT, _OBSERVATION = b'{"context":"', b'{"observation":'
_LONGEST_NUMBER = 18


class LogDecoder:
    """Reads a log incrementally: bytes go in as they arrive, events come out.

    Attributes:
        header: Header of the log; None until its line is complete.
    """

    header_type: ClassVar[type[Header]] = Header

    def __init__(self) -> None:
        self.header: Header | None = None
        self._buffer = b""
        self._position = 0
        self._consumed = 0
        self._next_index: dict[str, int] = {}
        self._context: str | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the log."""
        rest = self.rest
        self._consumed += self._position
        self._buffer = rest + data if rest else data
        self._position = 0

    @property
    def rest(self) -> bytes:
        """Bytes that belong to no event yet."""
        return self._buffer[self._position :]

    def take_observation(self, data: bytes) -> tuple[int, bytes] | None:
        """Take the next bytes of the log, and return number and payload, if they are exactly the next observation.

        This is faster than `feed()` and `next_event()`, and almost every read from a channel is such a case.
        """
        context = self._context
        if context is None or self._position != len(self._buffer):
            return None
        index = self._next_index.get(context, 0)
        line = b'{"observation":%d}\n' % index
        length = len(data)
        if length != len(line) + self._observation_bytes + 1 or data[-1] != 10 or not data.startswith(line):
            return None
        self._consumed, self._position, self._buffer = self._consumed + self._position + length, 0, b""
        self._next_index[context] = index + 1
        return index, data[len(line) : -1]

    def read_header(self) -> Header | None:
        """Return the header, or None if more bytes are needed; raise `ProtocolError` for another line."""
        if self.header is None and (end := self._line_end()) >= 0:
            try:
                self.header = self.header_type.parse(self._buffer[self._position : end])
            except ValueError as error:
                raise self._fail(str(error)) from None
            self._observation_bytes = self.header.observation_bytes
            self._position = end + 1
        return self.header

    def next_event(self) -> str | tuple[int, bytes] | None:
        """Return the next event, or None if more bytes are needed.

        An event is the name of the context of the observations that follow, a function (empty for inlining); or an
        observation: its number within the context, and the bytes of the features in header order. Raises
        `ProtocolError` if the bytes violate the format; it contains the offset of the line.
        """
        if self.read_header() is None or (end := self._line_end()) < 0:
            return None
        line = self._buffer[self._position : end]
        if line.startswith(_CONTEXT) and line.endswith(b'"}'):
            self._context = self._name(line[len(_CONTEXT) : -2])
            self._position = end + 1
            return self._context
        number = line[len(_OBSERVATION) : -1]
        if not (line.startswith(_OBSERVATION) and line.endswith(b"}") and number.isdigit()):
            raise self._fail(f"expected a context with a name or an observation with a number, got {line[:80]!r}")
        if self._context is None:
            raise self._fail("expected a context, got an observation")
        expected = self._next_index.get(self._context, 0)
        if number != b"%d" % expected:
            got = number[:_LONGEST_NUMBER].decode()
            raise self._fail(f"expected observation {expected} of context {self._context!r}, got {got}")
        stop = end + 1 + self._observation_bytes
        if len(self._buffer) <= stop:
            return None
        if self._buffer[stop] != 10:
            self._position, following = stop, self._buffer[stop : stop + 1]
            raise self._fail(f"expected {self._observation_bytes} bytes of tensors and a newline, got {following!r}")
        self._position = stop + 1
        self._next_index[self._context] = expected + 1
        return expected, self._buffer[end + 1 : stop]

    def _fail(self, message: str) -> ProtocolError:
        return ProtocolError(f"{message} (at byte {self._consumed + self._position})")

    def _line_end(self) -> int:
        end = self._buffer.find(b"\n", self._position, self._position + LONGEST_LINE)
        if end < 0 and len(self._buffer) - self._position >= LONGEST_LINE:
            raise self._fail(f"expected a line of at most {LONGEST_LINE} bytes, got a longer one")
        return end

    def _name(self, text: bytes) -> str:
        try:
            if b"\\" not in text and b'"' not in text:
                return text.decode()
            import json  # names with special characters are rare

            return str(json.loads(b'"%s"' % text))
        except ValueError:
            raise self._fail(f"expected a context with a name, got {text[:80]!r}") from None
