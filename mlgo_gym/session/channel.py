"""The two FIFOs between an advisor of clang and us, what comes over them, and how far we have read."""

from __future__ import annotations

import contextlib
import copy
import os
from collections import deque
from collections.abc import Sequence

from mlgo_gym.errors import TrainingLogError
from mlgo_gym.llvm.advisors import Advisor
from mlgo_gym.llvm.training_log import Context, LogDecoder, LogHeader, Observation
from mlgo_gym.session.decision import Decision
from mlgo_gym.session.file_id import FileId, file_id

_READ_SIZE = 1 << 16


class Channel:
    """Our ends of two new FIFOs.

    Args:
        base: the path of both, without `.in` (the advice) and `.out` (the log).
        number: the position of the advisor among the session's.
        advisor: who asks.

    Attributes:
        advisor: who asks.
        advice: the descriptor that takes advice.
        log: the descriptor that gives the log; -1 once clang has closed it.
        decoder: reads the log.
        context: the context that the log is in.
        ahead: how many answers were sent ahead to questions that clang has not asked yet.
        ended: whether clang has closed the log.
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
            # Blocking opens would wait for clang; with O_RDWR there is a reader from the start: us.
            self.advice = os.open(base + ".in", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            self.log = os.open(base + ".out", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except BaseException:
            self.close()
            raise

    def copy(self, base: str) -> tuple[Channel, dict[FileId, str]]:
        """Return a copy at the same position, and which of its files replaces which of these."""
        twin = Channel(base, self._number, self.advisor)
        twin.decoder = copy.deepcopy(self.decoder, {id(self.decoder.header): self.decoder.header})
        twin.context = self.context
        files = {file_id(os.fstat(self.advice)): twin.base + ".in"}
        if self.log >= 0:
            files[file_id(os.fstat(self.log))] = twin.base + ".out"
        else:
            twin.close_log()
        return twin, files

    def read(self, ready: deque[Decision]) -> Decision | None:
        """Read what clang has written: return it if it is one question and nothing else, and else queue what it is.

        Args:
            ready: the questions that were read and not returned yet.

        Raises:
            TrainingLogError: it is not the protocol.
        """
        while True:
            try:
                data = os.read(self.log, _READ_SIZE)
            except BlockingIOError:
                return None
            if not data:
                # Before the header it has not been opened yet.
                self.ended = self.decoder.header is not None
                return None
            if not (ready or self.ahead):
                observation = self.decoder.take_observation(data)
                if observation is not None:
                    return Decision(self._number, self.context, observation.number, observation.payload)
            self._decode(data, ready)
            if len(data) < _READ_SIZE:
                return None

    def _decode(self, data: bytes, ready: deque[Decision]) -> None:
        decoder = self.decoder
        first = decoder.header is None
        decoder.feed(data)
        while (event := decoder.next_event()) is not None:
            if isinstance(event, Observation):
                if self.ahead:
                    self.ahead -= 1
                else:
                    ready.append(Decision(self._number, self.context, event.number, event.payload))
            elif isinstance(event, Context):
                self.context = event.name
            else:
                raise TrainingLogError("a channel carries no outcomes", event.offset)
        if first and decoder.header is not None:
            self._check_header(decoder.header)
        if self._unsent:
            self._send()

    def _check_header(self, header: LogHeader) -> None:
        wanted, found = self.advisor.scalar_type, header.advice
        if found is None or found.type != wanted or found.size != 1:
            raise TrainingLogError(f"one {wanted} was to be the advice, the header says {found}", 0)

    def send_ahead(self, answers: Sequence[bytes], asked: int) -> None:
        """Send the answers to the next questions.

        Args:
            answers: the bytes of one advice tensor for each question.
            asked: how many of these questions have been read.
        """
        self.ahead = len(answers) - asked
        self._unsent += b"".join(answers)
        self._send()

    def _send(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                del self._unsent[: os.write(self.advice, self._unsent)]

    def close_log(self) -> None:
        """Close our end of the log: clang has closed its own."""
        os.close(self.log)
        self.log = -1

    def close(self) -> None:
        """Close the descriptors. Idempotent."""
        for descriptor in (self.advice, self.log):
            if descriptor >= 0:
                os.close(descriptor)
        self.advice = self.log = -1
