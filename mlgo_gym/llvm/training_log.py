"""Tensors and headers of LLVM's training logs with NumPy's types, and a writer; `mlgo_clang.protocol` reads logs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mlgo_clang import protocol
from mlgo_clang.protocol import SCALARS, Header, Tensor

SCALAR_TYPES: Mapping[str, np.dtype[Any]] = {name: np.dtype(f"<{code}") for name, (code, _) in SCALARS.items()}
"""The NumPy dtype of each scalar type."""


class TensorSpec(Tensor):
    """One named tensor with its NumPy type."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of one element."""
        return SCALAR_TYPES[self.type]


class LogHeader(Header):
    """The first line of a log, with tensors of NumPy's types, and the structured `dtype` of one observation."""

    tensor_type = TensorSpec
    if TYPE_CHECKING:
        features: tuple[TensorSpec, ...]
        advice: TensorSpec | None
        score: TensorSpec | None

    def __init__(
        self, features: Sequence[TensorSpec], advice: TensorSpec | None = None, score: TensorSpec | None = None
    ) -> None:
        super().__init__(features, advice, score)
        # A shape that NumPy cannot represent, such as one of 100 dimensions, fails here, not at the first observation.
        self.dtype: np.dtype[np.void] = np.dtype([(spec.name, spec.dtype, spec.shape) for spec in features])


class LogDecoder(protocol.LogDecoder):
    """Reads a log incrementally, with a header of NumPy's types."""

    header_type = LogHeader
    if TYPE_CHECKING:
        header: LogHeader | None


class LogWriter:
    """Writes a log to a binary stream, byte for byte as LLVM's `Logger` does; the header is written at once."""

    def __init__(self, stream: IO[bytes], header: LogHeader) -> None:
        self._stream = stream
        self._header = header
        self._context = ""
        self._next_index: Counter[str] = Counter()
        stream.write(header.json.encode() + b"\n")

    def _line(self, value: dict[str, object]) -> None:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        # As LLVM does, which writes the replacement character for bytes of a name that are no UTF-8.
        valid = text.encode(errors="surrogateescape").decode(errors="replace")
        self._stream.write(valid.encode() + b"\n")

    def context(self, name: str) -> None:
        """Begin a context; every observation belongs to one."""
        self._context = name
        self._line({"context": name})

    def observation(self, payload: bytes) -> int:
        """Write the bytes of an observation's tensors, and return its number in its context."""
        self._current = self._next_index[self._context]
        self._next_index[self._context] += 1
        self._line({"observation": self._current})
        self._stream.write(payload + b"\n")
        return self._current

    def outcome(self, score: npt.ArrayLike) -> None:
        """Write the score of the last observation."""
        assert self._header.score is not None, "only a log with scores has outcomes"
        self._line({"outcome": self._current})
        self._stream.write(np.asarray(score, self._header.score.dtype).tobytes() + b"\n")
