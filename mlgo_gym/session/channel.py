"""The two FIFOs between an advisor of clang and us, and how far we have read."""

from __future__ import annotations

import copy
import os

from mlgo_gym.llvm.training_log import LogDecoder
from mlgo_gym.session.snapshot import FileId, file_id


class Channel:
    """Our ends of two new FIFOs.

    Args:
        base: the path of both, without `.in` (the advice) and `.out` (the log).

    Attributes:
        advice: the descriptor that takes advice.
        log: the descriptor that gives the log; -1 once clang has closed it.
        decoder: reads the log.
        context: the context that the log is in.
    """

    def __init__(self, base: str) -> None:
        self.base = base
        self.decoder = LogDecoder()
        self.context = ""
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
        """Return a channel that has got as far, and which of its files takes the place of which of these."""
        twin = Channel(base)
        twin.decoder = copy.deepcopy(self.decoder, {id(self.decoder.header): self.decoder.header})
        twin.context = self.context
        files = {file_id(os.fstat(self.advice)): twin.base + ".in"}
        if self.log >= 0:
            files[file_id(os.fstat(self.log))] = twin.base + ".out"
        else:
            twin.close_log()
        return twin, files

    def close_log(self) -> None:
        """Give the log back: clang has closed it."""
        os.close(self.log)
        self.log = -1

    def close(self) -> None:
        """Give the descriptors back. Idempotent."""
        for descriptor in (self.advice, self.log):
            if descriptor >= 0:
                os.close(descriptor)
        self.advice = self.log = -1
