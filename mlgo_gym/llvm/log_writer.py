"""Write training logs, byte for byte as LLVM does."""

from __future__ import annotations

import json
from typing import IO

import numpy as np
import numpy.typing as npt

from mlgo_gym.llvm.training_log import LogHeader


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
        """Write one observation, the bytes of its tensors in header order, and return its number.

        Raises:
            ValueError: no context was begun, or the payload does not have the header's size.
        """
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
        """Write the score of the observation written last.

        Raises:
            ValueError: the header has no score, no observation is waiting for one, or its size is another.
        """
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
