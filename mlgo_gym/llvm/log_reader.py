"""Read whole training logs from files and other streams."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from typing import IO, NamedTuple

import numpy as np
import numpy.typing as npt

from mlgo_gym.llvm.training_log import Context, Event, LogDecoder, LogHeader, Observation, Outcome


class Record(NamedTuple):
    """One decision of a log on disk.

    `features` is a structured scalar array of shape () with the header's dtype; `outcome` has the score's shape and
    dtype, or is None where the log has no outcome for this decision.
    """

    context: str
    number: int
    features: npt.NDArray[np.void]
    outcome: npt.NDArray[np.generic] | None


def read_events(stream: IO[bytes], decoder: LogDecoder | None = None, *, chunk: int = 1 << 20) -> Iterator[Event]:
    """Yield the events of a log until the stream ends.

    Args:
        stream: a binary stream, blocking; a file or a pipe.
        decoder: the decoder to use, for a caller who wants its `header`.
        chunk: how many bytes to ask the stream for at a time.

    Raises:
        TrainingLogError: the log is malformed or cut off.
    """
    decoder = decoder or LogDecoder()
    while data := stream.read(chunk):
        decoder.feed(data)
        while (event := decoder.next_event()) is not None:
            yield event
    decoder.finish()


def read_log(stream: IO[bytes]) -> tuple[LogHeader, Iterator[Record]]:
    """Read a whole log: its header at once, its decisions as they are asked for.

    Raises:
        TrainingLogError: the log is malformed or cut off; raised while iterating for what lies behind the header.
    """
    decoder = LogDecoder()
    events = read_events(stream, decoder)
    first = next(events, None)
    assert decoder.header is not None  # finish() raises where there is none
    return decoder.header, _records(decoder.header, first, events)


def _records(header: LogHeader, first: Event | None, events: Iterator[Event]) -> Iterator[Record]:
    dtype, context = header.dtype, ""
    # The outcome of an observation follows it directly.
    for event, following in pairwise(chain((first,), events, (None,))):
        if isinstance(event, Context):
            context = event.name
        elif isinstance(event, Observation):
            outcome = None
            if isinstance(following, Outcome):
                assert header.score is not None
                outcome = np.frombuffer(following.payload, header.score.dtype).reshape(header.score.shape)
            yield Record(context, event.number, np.frombuffer(event.payload, dtype).reshape(()), outcome)
