"""Servers of a channel: they read clang's observations and write the advice."""

from __future__ import annotations

import os

from mlgo_clang.errors import ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    Decide = Callable[[bytes, int], int]
    """Takes a buffer and the offset of an observation in it, and returns the advice."""

    class ChannelServer(Protocol):
        """Answers the observations of a channel."""

        @property
        def decisions(self) -> int:
            """Number of decisions so far."""

        def start(self, log: int, advice: int, data: bytes, messages: int, folder: int) -> None:
            """Start to serve a channel.

            Args:
                log: the descriptor from which to read observations.
                advice: the descriptor to which to write advice.
                data: the bytes after the header.
                messages: the file of clang's standard error.
                folder: the folder in which clang prints code; -1 if it prints to standard error.
            """

        def serve(self, others: Sequence[int], milliseconds: int) -> bool:
            """Answer what clang has written; return whether it can still write.

            A server may wait for more, until one of the other descriptors is readable or nothing happens for some time.
            """


class RuleServer:
    """Answers each observation by a function of Python.

    Args:
        size: bytes of an observation.
        decide: the function.
    """

    def __init__(self, size: int, decide: Decide) -> None:
        self._decisions = 0
        self._size = size
        self._decide = decide
        self._log = self._advice = -1
        self._data = b""

    @property
    def decisions(self) -> int:
        """Number of decisions so far."""
        return self._decisions

    def start(self, log: int, advice: int, data: bytes, messages: int, folder: int) -> None:
        """Start to serve a channel, without messages and code."""
        del messages, folder
        self._log, self._advice = log, advice
        self._answer(data)

    def serve(self, others: Sequence[int], milliseconds: int) -> bool:
        """Answer what clang has written; return whether it can still write."""
        del others, milliseconds
        try:
            new = os.read(self._log, 1 << 16)
        except BlockingIOError:
            return True
        if not new:
            return False
        self._answer(self._data + new if self._data else new)
        return True

    def _answer(self, data: bytes) -> None:
        position = 0
        while (newline := data.find(b"\n", position)) >= 0:
            if data.startswith(b'{"context"', position):
                position = newline + 1
                continue
            end = newline + 1 + self._size
            if len(data) <= end:
                break
            if not data.startswith(b'{"observation"', position) or data[end] != 10:
                raise ProtocolError(
                    f"expected an observation of {self._size} bytes and a newline, got "
                    f"{data[position : position + 100]!r}"
                )
            advice = self._decide(data, newline + 1)
            try:
                os.write(self._advice, advice.to_bytes(8, "little", signed=True))
            except BlockingIOError:
                raise ProtocolError("clang requests decisions without reading the advice") from None
            self._decisions += 1
            position = end + 1
        self._data = data[position:]


def silence(milliseconds: int) -> ProtocolError:
    """Return the error of a clang that did nothing for some time."""
    return ProtocolError(
        f"clang gave no sign of life for {milliseconds / 1000:g} s while a policy decided; raise --mlgo-timeout"
    )
