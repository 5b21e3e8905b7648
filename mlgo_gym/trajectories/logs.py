"""Trajectories as LLVM's training logs, which LLVM's log_reader.py and google/ml-compiler-opt read.

An observation is the features and, last of them, the decision, as LLVM's own `-training-log` has it; each is followed
by an outcome, as those readers expect: the reward of the step, 0 but for the last one of the log, unless the
environment gives credit.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO

from mlgo_gym.errors import MlgoError, TrainingLogError
from mlgo_gym.llvm.log_reader import read_events
from mlgo_gym.llvm.log_writer import LogWriter
from mlgo_gym.llvm.tensor_spec import TensorSpec
from mlgo_gym.llvm.training_log import LogDecoder, LogHeader, Observation
from mlgo_gym.storage.foreign_file import open_foreign
from mlgo_gym.trajectories.trajectory import Step

SCORE = TensorSpec("reward", "float", (1,))
"""The tensor of the outcomes; the name is that of LLVM's register allocation logs."""


def log_header(channel: LogHeader) -> LogHeader:
    """Return the header of a log of the decisions that came over a channel."""
    assert channel.advice is not None
    return LogHeader((*channel.features, channel.advice), score=SCORE)


def write_log(stream: IO[bytes], channel: LogHeader, steps: Sequence[Step], rewards: Sequence[float]) -> None:
    """Write the decisions of one advisor, byte for byte as LLVM's `Logger` would.

    Args:
        stream: where to; the caller closes it.
        channel: the header of the advisor's channel.
        steps: its decisions, in order.
        rewards: the reward of each, its outcome.
    """
    log = LogWriter(stream, log_header(channel))
    context: str | None = None
    for step, reward in zip(steps, rewards, strict=True):
        if step.decision.context != context:
            context = step.decision.context
            log.context(context)
        log.observation(step.decision.payload + step.advice)
        log.outcome(reward)


def read_answers(path: Path) -> list[bytes]:
    """Return the decisions in a log, as the bytes of one advice tensor each.

    Raises:
        MlgoError: there is no such file, or it is no log.
    """
    decoder = LogDecoder()
    payloads = []
    try:
        with open_foreign(path) as stream:
            payloads = [event.payload for event in read_events(stream, decoder) if isinstance(event, Observation)]
    except (OSError, TrainingLogError) as error:
        raise MlgoError(f"{path} was to be a training log, and cannot be read: {error}; trace it again") from error
    assert decoder.header is not None  # read_events() raises where there is none
    size = decoder.header.features[-1].nbytes
    return [payload[-size:] for payload in payloads]
