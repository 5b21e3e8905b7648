"""The two FIFOs of an advisor, and their decoder."""

from __future__ import annotations

import contextlib
import copy
import os
from collections import deque
from collections.abc import Sequence

from mlgo_gym.compiler.process.process import FileId, file_id
from mlgo_gym.compiler.protocol.decision import Decision, DecisionSite
from mlgo_gym.errors import TrainingLogError
from mlgo_gym.llvm.advisors import Advisor
from mlgo_gym.llvm.training_log import Context, LogDecoder, LogHeader, Observation

_READ_SIZE = 1 << 16


class Channel:
    """This process's ends of two new FIFOs.

    Args:
        base: Path of both, without `.in` (the advice) and `.out` (the log).
        number: Index of the advisor in the session's advisors.
        advisor: The advisor.

    Attributes:
        advisor: The advisor.
        advice: Descriptor for writing advice.
        log: Descriptor for reading the log; -1 once clang has closed it.
        decoder: Decoder of the log.
        context: Current context of the log.
        ahead: Number of answers that were sent ahead of their requests.
        ended: Whether clang has closed the log.
    """

    def __init__(self, base: str, number: int, advisor: Advisor) -> None:
        self.base = base
        self.decoder = LogDecoder()
        self.context = ""
        self.ahead = 0
        self.ended = False
        self._number = number
        self.advisor = advisor
        self._unsent = bytearray()
        self.advice = self.log = -1
        os.mkfifo(base + ".in", 0o600)
        os.mkfifo(base + ".out", 0o600)
        try:
            # Blocking opens would wait for clang; O_RDWR provides a reader from the start.
            self.advice = os.open(base + ".in", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            self.log = os.open(base + ".out", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except BaseException:
            self.close()
            raise

    def copy(self, base: str) -> tuple[Channel, dict[FileId, str]]:
        """Return a copy at the same position, and the path of its file for each file of this channel."""
        copied = Channel(base, self._number, self.advisor)
        copied.decoder = copy.deepcopy(self.decoder, {id(self.decoder.header): self.decoder.header})
        copied.context = self.context
        files = {file_id(os.fstat(self.advice)): copied.base + ".in"}
        if self.log >= 0:
            files[file_id(os.fstat(self.log))] = copied.base + ".out"
        else:
            copied.close_log()
        return copied, files

    def read(self, ready: deque[Decision]) -> Decision | None:
        """Read the log; return a single decision that arrived alone, append all others to `ready`.

        Raises:
            TrainingLogError: The log violates the protocol.
        """
        while True:
            try:
                data = os.read(self.log, _READ_SIZE)
            except BlockingIOError:
                return None
            if not data:
                # Before the header clang has not opened the log yet.
                self.ended = self.decoder.header is not None
                return None
            if not (ready or self.ahead):
                observation = self.decoder.take_observation(data)
                if observation is not None:
                    return self._decision(observation)
            self._decode(data, ready)
            if len(data) < _READ_SIZE:
                return None

    def _decision(self, observation: Observation) -> Decision:
        return Decision(self._number, DecisionSite(self.context, 0, observation.number), observation.payload)

    def _decode(self, data: bytes, ready: deque[Decision]) -> None:
        decoder = self.decoder
        first = decoder.header is None
        decoder.feed(data)
        while (event := decoder.next_event()) is not None:
            if isinstance(event, Observation):
                if self.ahead:
                    self.ahead -= 1
                else:
                    ready.append(self._decision(event))
            elif isinstance(event, Context):
                self.context = event.name
            else:
                raise TrainingLogError("expected no outcome in a channel, got one", event.offset)
        if first and decoder.header is not None:
            self._check_header(decoder.header)
        if self._unsent:
            self._send()

    def _check_header(self, header: LogHeader) -> None:
        scalar, found = self.advisor.scalar_type, header.advice
        if found is None or found.type != scalar or found.size != 1:
            raise TrainingLogError(f"expected advice of one {scalar} in the header, got {found}", 0)

    def send_ahead(self, answers: Sequence[bytes], requested: int) -> None:
        """Send the answers to the next decisions, of which `requested` were read already."""
        self.ahead = len(answers) - requested
        self._unsent += b"".join(answers)
        self._send()

    def _send(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                del self._unsent[: os.write(self.advice, self._unsent)]

    def close_log(self) -> None:
        """Close the log after clang has closed its end."""
        os.close(self.log)
        self.log = -1

    def close(self) -> None:
        """Close the descriptors. Idempotent."""
        for descriptor in (self.advice, self.log):
            if descriptor >= 0:
                os.close(descriptor)
        self.advice = self.log = -1
