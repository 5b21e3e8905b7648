"""The channel of one advisor: its two FIFOs, and the decisions in its log."""

from __future__ import annotations

import copy
import os
from collections import deque

from mlgo_clang.errors import ProtocolError
from mlgo_clang.protocol import open_pipes
from mlgo_gym.compiler.decision import Decision, DecisionSite
from mlgo_gym.compiler.process import FileId, close_descriptors, file_id
from mlgo_gym.llvm.advisors import Advisor
from mlgo_gym.llvm.training_log import LogDecoder

_READ_SIZE = 1 << 16


class Channel:
    """This process's ends of two new FIFOs of an advisor, `base.in` for advice and `base.out` for the log.

    Attributes:
        advice: Descriptor for writing advice.
        log: Descriptor for reading the log; -1 once clang has closed it.
        decoder: Decoder of the log.
        context: Current context of the log.
        ended: Whether clang has closed the log.
        error: Violation of the protocol that `read()` met.
    """

    def __init__(self, base: str, advisor_index: int, advisor: Advisor) -> None:
        self.base = base
        self.decoder = LogDecoder()
        self.context = ""
        self.ended = False
        self.error: ProtocolError | None = None
        self._advisor_index = advisor_index
        self.advisor = advisor
        self.advice, self.log = open_pipes(base)

    def copy(self, base: str) -> tuple[Channel, dict[FileId, str]]:
        """Return a copy at the same position, and the path of its file for each file of this channel."""
        copied = Channel(base, self._advisor_index, self.advisor)
        copied.decoder = copy.deepcopy(self.decoder, {id(self.decoder.header): self.decoder.header})
        copied.context = self.context
        files = {file_id(os.fstat(self.advice)): copied.base + ".in"}
        if self.log >= 0:
            files[file_id(os.fstat(self.log))] = copied.base + ".out"
        else:
            copied.close_log()
        return copied, files

    def read(self, ready: deque[Decision]) -> bool:
        """Read the log, and append its decisions to `ready`; return whether that was one decision and nothing else."""
        while self.log >= 0:
            try:
                data = os.read(self.log, _READ_SIZE)
            except BlockingIOError:
                return False
            if not data:
                # Before the header clang has not opened the log yet.
                self.ended = self.decoder.header is not None
                return False
            if (observation := self.decoder.take_observation(data)) is not None:
                index, payload = observation
                ready.append(Decision(self._advisor_index, DecisionSite(self.context, 0, index), payload))
                return True
            try:
                self._decode(data, ready)
            except ProtocolError as error:
                self.error = error
                return False
            if len(data) < _READ_SIZE:
                return False
        return False

    def _decode(self, data: bytes, ready: deque[Decision]) -> None:
        decoder = self.decoder
        first = decoder.header is None
        decoder.feed(data)
        while (event := decoder.next_event()) is not None:
            if isinstance(event, str):
                self.context = event
            else:
                index, payload = event
                ready.append(Decision(self._advisor_index, DecisionSite(self.context, 0, index), payload))
        if first and decoder.header is not None:
            decoder.header.check_advice(self.advisor.scalar_type)

    def close_log(self) -> None:
        """Close the log after clang has closed its end."""
        os.close(self.log)
        self.log = -1

    def close(self) -> None:
        """Close the descriptors. Idempotent."""
        close_descriptors(self.advice, self.log)
        self.advice = self.log = -1
