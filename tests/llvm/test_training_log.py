"""LLVM's training-log format, read and written. Fuzzing damages logs."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.errors import TrainingLogError
from mlgo_gym.llvm.advisors import ADVISORS, EVICTION, INLINING, Advisor
from mlgo_gym.llvm.tensor_spec import TensorSpec
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.llvm.training_log import (
    LONGEST_LINE,
    Context,
    Event,
    LogDecoder,
    LogHeader,
    LogWriter,
    Observation,
    Outcome,
    read_events,
    read_log,
)
from tests.conftest import PROGRAMS, MakeBitcode

HEADER = LogHeader((TensorSpec("a", "int64_t", (1,)), TensorSpec("b", "float", (2,))))
SCORED = LogHeader(HEADER.features, score=TensorSpec("reward", "float", (1,)))
PAYLOAD = struct.pack("<qff", 10, 0.5, -2.0)


def line_of(header: LogHeader) -> bytes:
    return json.dumps(header.to_json(), separators=(",", ":")).encode() + b"\n"


HEADER_LINE, SCORED_LINE = line_of(HEADER), line_of(SCORED)
BEGUN = HEADER_LINE + b'{"context":"f"}\n'
SCORED_BEGUN = SCORED_LINE + b'{"context":"f"}\n'
OBSERVED = b'{"observation":0}\n' + PAYLOAD + b"\n"
OUTCOME = b'{"outcome":0}\n' + bytes(4) + b"\n"

WriteLog = Callable[[Toolchain, Advisor, str], bytes]


@pytest.fixture
def raw_log(make_bitcode: MakeBitcode, tmp_path: Path) -> WriteLog:
    """Return a function that has a real clang write a log into a file; its answers are in another file."""

    def write(compiler: Toolchain, advisor: Advisor, program: str) -> bytes:
        source = make_bitcode(program, compiler=compiler) if program.endswith(".c") else PROGRAMS / program
        base = tmp_path / "channel"
        answer = struct.pack("<f", 1.0) if advisor.scalar_type == "float" else struct.pack("<q", 32)
        Path(f"{base}.in").write_bytes(answer * 20_000)
        target = ["-cc1", "-triple", "x86_64-unknown-linux-musl", "-Oz", "-emit-obj", "-x", "ir", str(source)]
        # Never evicting ends in an error where something must be evicted; the log is complete all the same.
        compiler.run([*target, *advisor.flags(str(base)), "-o", "/dev/null"])
        return Path(f"{base}.out").read_bytes()

    return write


def written(header: LogHeader, events: list[Event]) -> bytes:
    out = io.BytesIO()
    writer = LogWriter(out, header)
    for event in events:
        if isinstance(event, Context):
            writer.context(event.name)
        elif isinstance(event, Observation):
            assert writer.observation(event.payload) == event.number
        else:
            assert header.score is not None
            writer.outcome(np.frombuffer(event.payload, header.score.dtype))
    return out.getvalue()


def rewritten(log: bytes) -> bytes:
    decoder = LogDecoder()
    events = list(read_events(io.BytesIO(log), decoder))
    assert decoder.header is not None
    return written(decoder.header, events)


@pytest.mark.parametrize("advisor", ADVISORS, ids=lambda advisor: advisor.name)
def test_the_writer_writes_byte_for_byte_what_clang_writes(
    any_toolchain: Toolchain, advisor: Advisor, raw_log: WriteLog
) -> None:
    log = raw_log(any_toolchain, advisor, "calls.c" if advisor is INLINING else "pressure.c")
    assert log.count(b'{"observation":') > 1
    assert rewritten(log) == log
    if advisor is INLINING:
        header, records = read_log(io.BytesIO(log))
        first, *others = records
        assert first.context == ""
        assert first.features["callee_basic_block_count"] == 1
        assert [(record.context, record.number) for record in others] == [("", number) for number in range(1, 9)]
        assert header.advice == TensorSpec("inlining_decision", "int64_t", (1,))


def test_names_that_json_must_escape_or_that_are_no_utf_8_are_read_and_written_as_clang_does(
    toolchain: Toolchain, raw_log: WriteLog
) -> None:
    log = raw_log(toolchain, EVICTION, "odd_names.ll")
    contexts = [event.name for event in read_events(io.BytesIO(log)) if isinstance(event, Context)]
    assert contexts == ['quote"', "back\\slash", "tab\tand\nline", "caf\u00e9", "bell\x07"]
    assert rewritten(log) == log
    out = io.BytesIO()
    LogWriter(out, SCORED).context("o\udcffd caf\u00e9")
    assert out.getvalue().endswith('\n{"context":"o\ufffdd caf\u00e9"}\n'.encode())


def test_a_log_with_scores_is_that_of_llvm() -> None:
    log = written(SCORED, [Context("f", 0), Observation(0, PAYLOAD, 0), Outcome(0, struct.pack("<f", 1.5), 0)])
    assert log == (
        b'{"features":[{"name":"a","type":"int64_t","port":0,"shape":[1]},'
        b'{"name":"b","type":"float","port":0,"shape":[2]}],'
        b'"score":{"name":"reward","type":"float","port":0,"shape":[1]}}\n'
        b'{"context":"f"}\n{"observation":0}\n' + PAYLOAD + b'\n{"outcome":0}\n\x00\x00\xc0\x3f\n'
    )


def test_every_log_is_read_back_however_its_bytes_are_cut_and_refused_if_it_ends_within_an_event() -> None:
    """The offset of an event is that of its line. Payloads look like lines."""
    events: list[Event] = []
    for name, count in (("f", 2), ('h"\n\\\u00e9', 0), ("", 1)):
        events.append(Context(name, 0))
        for number in range(count):
            events += [Observation(number, b'\n{"context":"x"}', 0), Outcome(number, b"\n}{\n", 0)]
    data = written(SCORED, events)
    for chunk in range(1, 60):
        read = list(read_events(io.BytesIO(data), chunk=chunk))
        assert [event._replace(offset=0) for event in read] == events
    starts = {Context: b'{"context":', Observation: b'{"observation":', Outcome: b'{"outcome":'}
    assert all(data[event.offset :].startswith(starts[type(event)]) for event in read)
    ends = {event.offset for event in read} | {len(data)}
    for cut in range(len(data) + 1):
        if cut in ends:
            assert list(read_events(io.BytesIO(data[:cut]), chunk=7)) == [event for event in read if event.offset < cut]
            continue
        with pytest.raises(TrainingLogError) as caught:
            list(read_events(io.BytesIO(data[:cut])))
        assert caught.value.offset == max((end for end in ends if end < cut), default=0)


def test_observations_are_numbered_within_their_context_and_may_lack_an_outcome() -> None:
    out = io.BytesIO()
    writer = LogWriter(out, SCORED)
    numbers = []
    for name in ("f", "g", "f"):
        writer.context(name)
        numbers += [writer.observation(PAYLOAD), writer.observation(PAYLOAD)]
        writer.outcome(len(numbers))
    assert numbers == [0, 1, 0, 1, 2, 3]
    header, records = read_log(io.BytesIO(out.getvalue()))
    assert header == SCORED
    found = [(record.context, record.number, record.outcome) for record in records]
    assert found == [("f", 0, None), ("f", 1, 2), ("g", 0, None), ("g", 1, 4), ("f", 2, None), ("f", 3, 6)]


# A log, the offset of the error, and a part of its message.
FIRST_LINES = [
    (b"", "empty"),
    (HEADER_LINE[:-1], "cut off"),
    (b"clang: hello\n", "JSON line"),
    (b"{}\n", "list of features"),
    (b'{"features":[]}\n', "at least one feature"),
    (b'{"features":[1]}\n', "tensor specification"),
    (HEADER_LINE.replace(b'"b"', b'"a"'), "twice"),
    (b"[" * 100_000 + b"\n", "nested too deeply"),
    (b" " * (LONGEST_LINE + 1), "a JSON line of at most"),
]
LATER_LINES = [
    (HEADER_LINE, b'{"context":"\xff"}\n', "JSON line"),
    (HEADER_LINE, OBSERVED, "expected a context"),
    (HEADER_LINE, b'{"context":"f","outcome":0}\n', "expected a context, an observation or an outcome, got"),
    (HEADER_LINE, b'{"context":3}\n', "a string as the context"),
    (BEGUN, OBSERVED.replace(b":0", b":1"), "expected observation 0 of context 'f', got 1"),
    *((BEGUN, b'{"observation":%s}\n' % number, "number of an observation") for number in (b'"x"', b"-1", b"true")),
    (BEGUN + OBSERVED[:-1], b"\x00\n", "expected 16 bytes of tensors and a newline, got b'\\x00'"),
    (BEGUN, OBSERVED[:-5], "cut off"),
    (BEGUN + OBSERVED, OUTCOME, "the header has no score"),
    (SCORED_BEGUN, OUTCOME, "expected an outcome after its observation"),
    (SCORED_BEGUN + OBSERVED, OUTCOME.replace(b":0", b":1"), "expected an outcome after its observation"),
    (SCORED_BEGUN + OBSERVED + OUTCOME, OUTCOME, "expected an outcome after its observation"),
]


def test_a_malformed_log_raises_one_error_that_names_the_offset() -> None:
    for before, data, complaint in (*((b"", *line) for line in FIRST_LINES), *LATER_LINES):
        for chunk in (1 if len(data) < 10_000 else 1000, 1 << 20):
            with pytest.raises(TrainingLogError) as caught:
                list(read_events(io.BytesIO(before + data), chunk=chunk))
            assert caught.value.offset == len(before), data[:99]
            assert complaint in str(caught.value)
            assert f"(at byte {len(before)})" in str(caught.value)
    # Events before the damage are returned first.
    events = read_events(io.BytesIO(BEGUN + OBSERVED + b"garbage\n"))
    assert [type(next(events)), type(next(events))] == [Context, Observation]
    with pytest.raises(TrainingLogError):
        next(events)


def test_the_writer_refuses_what_belongs_elsewhere() -> None:
    out = io.BytesIO()
    writer = LogWriter(out, SCORED)
    with pytest.raises(ValueError, match="needs a context: call context"):
        writer.observation(PAYLOAD)
    writer.context("f")
    for payload in (PAYLOAD[:-1], PAYLOAD + b"\n"):
        with pytest.raises(ValueError, match=r"bytes, found \d+"):
            writer.observation(payload)
    with pytest.raises(ValueError, match="write the observation first"):
        writer.outcome(1.0)
    assert out.getvalue() == SCORED_BEGUN
    assert writer.observation(PAYLOAD) == 0
    writer.outcome(1.0)
    with pytest.raises(ValueError, match="once: write the observation first"):
        writer.outcome(1.0)
