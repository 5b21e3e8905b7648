"""LLVM's training-log format, read and written."""

from __future__ import annotations

import io
import json
import math
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo_gym.errors import TrainingLogError
from mlgo_gym.llvm.advisors import ADVISORS, EVICTION, INLINING, Advisor
from mlgo_gym.llvm.log_reader import read_events, read_log
from mlgo_gym.llvm.log_writer import LogWriter
from mlgo_gym.llvm.tensor_spec import SCALAR_TYPES, TensorSpec
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.llvm.training_log import (
    LONGEST_LINE,
    Context,
    Event,
    LogDecoder,
    LogHeader,
    Observation,
    Outcome,
)
from tests.conftest import MakeBitcode

HEADER = LogHeader((TensorSpec("a", "int64_t", (1,)), TensorSpec("b", "float", (2,))))
SCORED = LogHeader(HEADER.features, score=TensorSpec("reward", "float", (1,)))
PAYLOAD = struct.pack("<qff", 10, 0.5, -2.0)


def line_of(header: LogHeader) -> bytes:
    return json.dumps(header.to_json(), separators=(",", ":")).encode() + b"\n"


HEADER_LINE = line_of(HEADER)
SCORED_LINE = line_of(SCORED)
BEGUN = HEADER_LINE + b'{"context":"f"}\n'
OBSERVED = b'{"observation":0}\n' + PAYLOAD + b"\n"


@pytest.fixture
def raw_log(make_bitcode: MakeBitcode, tmp_path: Path) -> Callable[[Toolchain, Advisor, str], bytes]:
    """Return a function that has a real clang write a log into a file; its answers lie ready in a file."""

    def write(compiler: Toolchain, advisor: Advisor, program: str) -> bytes:
        source = (
            make_bitcode(program, compiler=compiler)
            if program.endswith(".c")
            else Path(__file__).parents[1].joinpath("programs", program)
        )
        base = tmp_path / "channel"
        answer = struct.pack("<f", 1.0) if advisor.scalar_type == "float" else struct.pack("<q", 32)
        Path(f"{base}.in").write_bytes(answer * 20_000)
        target = ["-cc1", "-triple", "x86_64-unknown-linux-musl", "-Oz", "-emit-obj", "-x", "ir", str(source)]
        # Never evicting ends in an error where something must be evicted; the log is whole all the same.
        compiler.run([*target, *advisor.flags(str(base)), "-o", "/dev/null"])
        return Path(f"{base}.out").read_bytes()

    return write


def rewritten(log: bytes) -> bytes:
    decoder = LogDecoder()
    events = list(read_events(io.BytesIO(log), decoder))
    assert decoder.header is not None
    out = io.BytesIO()
    write_events(LogWriter(out, decoder.header), decoder.header, events)
    return out.getvalue()


def write_events(writer: LogWriter, header: LogHeader, events: list[Event]) -> None:
    for event in events:
        if isinstance(event, Context):
            writer.context(event.name)
        elif isinstance(event, Observation):
            assert writer.observation(event.payload) == event.number
        else:
            assert header.score is not None
            writer.outcome(np.frombuffer(event.payload, header.score.dtype))


@pytest.mark.parametrize("advisor", ADVISORS, ids=lambda advisor: advisor.name)
def test_the_writer_writes_byte_for_byte_what_clang_writes(
    any_toolchain: Toolchain, advisor: Advisor, raw_log: Callable[[Toolchain, Advisor, str], bytes]
) -> None:
    log = raw_log(any_toolchain, advisor, "calls.c" if advisor is INLINING else "pressure.c")
    assert log.count(b'{"observation":') > 1
    assert rewritten(log) == log


def test_function_names_that_json_must_escape_are_read_and_written_as_clang_does(
    toolchain: Toolchain, raw_log: Callable[[Toolchain, Advisor, str], bytes]
) -> None:
    log = raw_log(toolchain, EVICTION, "odd_names.ll")
    contexts = [event.name for event in read_events(io.BytesIO(log)) if isinstance(event, Context)]
    assert contexts == ['quote"', "back\\slash", "tab\tand\nline", "caf\u00e9", "bell\x07"]
    assert rewritten(log) == log


def test_a_function_name_that_is_no_utf_8_is_written_as_llvm_does() -> None:
    out = io.BytesIO()
    LogWriter(out, SCORED).context("o\udcffd caf\u00e9")
    assert out.getvalue().endswith('\n{"context":"o\ufffdd caf\u00e9"}\n'.encode())


def test_the_header_of_a_log_with_scores_is_that_of_llvm() -> None:
    out = io.BytesIO()
    writer = LogWriter(out, SCORED)
    writer.context("f")
    writer.observation(PAYLOAD)
    writer.outcome([1.5])
    assert out.getvalue() == (
        b'{"features":[{"name":"a","type":"int64_t","port":0,"shape":[1]},'
        b'{"name":"b","type":"float","port":0,"shape":[2]}],'
        b'"score":{"name":"reward","type":"float","port":0,"shape":[1]}}\n'
        b'{"context":"f"}\n{"observation":0}\n' + PAYLOAD + b'\n{"outcome":0}\n\x00\x00\xc0\x3f\n'
    )


def test_an_inlining_log_of_clang_has_one_empty_context(
    toolchain: Toolchain, raw_log: Callable[[Toolchain, Advisor, str], bytes]
) -> None:
    header, records = read_log(io.BytesIO(raw_log(toolchain, INLINING, "calls.c")))
    found = list(records)
    assert {record.context for record in found} == {""}
    assert [record.number for record in found] == list(range(9))
    assert found[0].features["callee_basic_block_count"] == 1
    assert header.advice == TensorSpec("inlining_decision", "int64_t", (1,))


def tensor_specs() -> st.SearchStrategy[TensorSpec]:
    shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
    return st.builds(TensorSpec, st.text(max_size=12), st.sampled_from(sorted(SCALAR_TYPES)), shapes)


@st.composite
def logs(draw: st.DrawFn) -> tuple[LogHeader, list[Event]]:
    """A header, and events as a writer makes them; payloads are rich in newlines and braces. Offsets are 0."""
    features = draw(st.lists(tensor_specs(), min_size=1, max_size=5, unique_by=lambda spec: spec.name))
    header = LogHeader(tuple(features), draw(st.none() | tensor_specs()), draw(st.none() | tensor_specs()))

    def payload(size: int) -> bytes:
        seed = draw(st.binary(max_size=size))
        return (seed + b'\n{"context":"x"}\n' * (size // 16 + 1))[:size]

    events: list[Event] = []
    numbers: dict[str, int] = {}
    for name in draw(st.lists(st.sampled_from(["", "f", "g", 'h"\n\\', "\u00e9"]), max_size=5)):
        events.append(Context(name, 0))
        for _ in range(draw(st.integers(0, 3))):
            number = numbers[name] = numbers.get(name, -1) + 1
            events.append(Observation(number, payload(header.observation_bytes), 0))
            if header.score is not None and draw(st.booleans()):
                events.append(Outcome(number, payload(header.score.nbytes), 0))
    return header, events


def written(header: LogHeader, events: list[Event]) -> bytes:
    out = io.BytesIO()
    write_events(LogWriter(out, header), header, events)
    return out.getvalue()


def decoded(decoder: LogDecoder) -> list[Event]:
    return list(iter(decoder.next_event, None))


@given(logs(), st.lists(st.integers(1, 60), min_size=1, max_size=20))
def test_every_log_is_read_back_however_its_bytes_are_cut(log: tuple[LogHeader, list[Event]], cuts: list[int]) -> None:
    header, events = log
    data = written(header, events)
    decoder = LogDecoder()
    found: list[Event] = []
    position, turn = 0, 0
    while position < len(data):
        size = cuts[turn % len(cuts)]
        decoder.feed(data[position : position + size])
        found += decoded(decoder)
        position, turn = position + size, turn + 1
    decoder.finish()
    assert decoder.header == header
    assert [event._replace(offset=0) for event in found] == events


@given(logs())
def test_the_offset_of_an_event_is_where_its_line_begins(log: tuple[LogHeader, list[Event]]) -> None:
    data = written(*log)
    starts = {Context: b'{"context":', Observation: b'{"observation":', Outcome: b'{"outcome":'}
    for event in read_events(io.BytesIO(data), chunk=7):
        assert data[event.offset :].startswith(starts[type(event)])


@given(logs(), st.data())
def test_a_log_cut_off_anywhere_but_between_events_is_refused(
    log: tuple[LogHeader, list[Event]], data: st.DataObject
) -> None:
    whole = written(*log)
    whole_events = list(read_events(io.BytesIO(whole)))
    ends = {event.offset for event in whole_events} | {whole.index(b"\n") + 1, len(whole)}
    cut = data.draw(st.integers(0, len(whole)))
    stream = io.BytesIO(whole[:cut])
    if cut in ends:
        assert list(read_events(stream)) == [event for event in whole_events if event.offset < cut]
    else:
        with pytest.raises(TrainingLogError) as caught:
            list(read_events(stream))
        assert caught.value.offset == max((end for end in ends if end < cut), default=0)


@pytest.mark.parametrize("scalar", sorted(SCALAR_TYPES))
def test_the_extreme_values_of_every_scalar_type_come_back(scalar: str) -> None:
    shape = (2, 3)
    spec = TensorSpec("x", scalar, shape)
    if spec.dtype.kind == "f":
        limits = np.finfo(spec.dtype)
        values = [limits.min, limits.max, math.inf, limits.tiny]
    else:
        whole = np.iinfo(spec.dtype)
        values = [whole.min, whole.max, 10, 0]
    array = np.resize(np.array(values, spec.dtype), shape)
    out = io.BytesIO()
    writer = LogWriter(out, LogHeader((spec,), score=spec))
    writer.context("f")
    writer.observation(array.tobytes())
    writer.outcome(array)
    out.seek(0)
    _, records = read_log(out)
    (record,) = records
    assert record.features["x"].dtype == spec.dtype
    np.testing.assert_array_equal(record.features["x"], array)
    assert record.outcome is not None
    np.testing.assert_array_equal(record.outcome, array)


def test_payloads_of_nothing_but_newlines_are_read_by_length() -> None:
    data = BEGUN + b'{"observation":0}\n' + b"\n" * 17 + b'{"observation":1}\n' + b"\n" * 17
    assert [type(event) for event in read_events(io.BytesIO(data))] == [Context, Observation, Observation]


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
    assert [
        (record.context, record.number, None if record.outcome is None else record.outcome.item()) for record in records
    ] == [("f", 0, None), ("f", 1, 2), ("g", 0, None), ("g", 1, 4), ("f", 2, None), ("f", 3, 6)]
    assert list(read_log(io.BytesIO(HEADER_LINE))[1]) == []


OTHER_LINE = "expected a context, an observation or an outcome, got"

MALFORMED = {
    "no JSON in the first line": (b"clang: hello\n", 0, "JSON line"),
    "a first line that is no object": (b"[]\n", 0, "JSON object"),
    "a first line without features": (b"{}\n", 0, "list of features"),
    "no features at all": (b'{"features":[]}\n', 0, "at least one feature"),
    "a feature that is no specification": (b'{"features":[1]}\n', 0, "tensor specification"),
    "a feature of an unknown type": (
        b'{"features":[{"name":"a","port":0,"shape":[1],"type":"half"}]}\n',
        0,
        "known are",
    ),
    "a feature that comes twice": (
        line_of(HEADER).replace(b'"b"', b'"a"'),
        0,
        "twice",
    ),
    "an advice that is no specification": (HEADER_LINE[:-2] + b',"advice":1}\n', 0, "tensor specification"),
    "a score that is no specification": (HEADER_LINE[:-2] + b',"score":{}}\n', 0, "tensor specification"),
    "a first line nested without end": (b"[" * 100_000 + b"\n", 0, "nested too deeply"),
    "a first line that never ends": (b" " * (LONGEST_LINE + 1), 0, "a JSON line of at most"),
    "bytes that are not UTF-8": (HEADER_LINE + b'{"context":"\xff"}\n', len(HEADER_LINE), "JSON line"),
    "an observation before any context": (HEADER_LINE + OBSERVED, len(HEADER_LINE), "expected a context"),
    "an empty line": (HEADER_LINE + b"\n", len(HEADER_LINE), "JSON line"),
    "an unknown event": (HEADER_LINE + b'{"hello":0}\n', len(HEADER_LINE), OTHER_LINE),
    "two events in one line": (HEADER_LINE + b'{"context":"f","outcome":0}\n', len(HEADER_LINE), OTHER_LINE),
    "a context that is no string": (HEADER_LINE + b'{"context":3}\n', len(HEADER_LINE), "a string as the context"),
    "an observation that skips a number": (
        BEGUN + OBSERVED.replace(b":0", b":1"),
        len(BEGUN),
        "expected observation 0 of context 'f', got 1",
    ),
    "an observation that comes twice": (BEGUN + OBSERVED * 2, len(BEGUN + OBSERVED), "observation 1 of context"),
    "an observation without a number": (BEGUN + b'{"observation":"x"}\n', len(BEGUN), "number of an observation"),
    "an observation below zero": (BEGUN + b'{"observation":-1}\n', len(BEGUN), "number of an observation"),
    "an observation of a fraction": (BEGUN + b'{"observation":0.0}\n', len(BEGUN), "number of an observation"),
    "an observation of a truth value": (BEGUN + b'{"observation":true}\n', len(BEGUN), "number of an observation"),
    "an observation and more": (BEGUN + b'{"observation":0,"a":1}\n', len(BEGUN), "number of an observation"),
    "an observation that is not closed": (BEGUN + b'{"observation":0\n', len(BEGUN), "JSON line"),
    "no newline after the tensors": (
        BEGUN + OBSERVED[:-1] + b"\x00\n",
        len(BEGUN + OBSERVED) - 1,
        "expected 16 bytes of tensors and a newline, got b'\\x00'",
    ),
    "an outcome without a score in the header": (
        BEGUN + OBSERVED + b'{"outcome":0}\n' + bytes(4) + b"\n",
        len(BEGUN + OBSERVED),
        "the header has no score",
    ),
    "an outcome without an observation": (
        SCORED_LINE + b'{"context":"f"}\n{"outcome":0}\n' + bytes(4) + b"\n",
        len(SCORED_LINE) + 16,
        "expected an outcome after its observation",
    ),
    "an outcome of another observation": (
        SCORED_LINE + b'{"context":"f"}\n' + OBSERVED + b'{"outcome":1}\n' + bytes(4) + b"\n",
        len(SCORED_LINE) + 16 + len(OBSERVED),
        "expected an outcome after its observation",
    ),
    "a second outcome": (
        SCORED_LINE + b'{"context":"f"}\n' + OBSERVED + (b'{"outcome":0}\n' + bytes(4) + b"\n") * 2,
        len(SCORED_LINE) + 16 + len(OBSERVED) + 19,
        "expected an outcome after its observation",
    ),
    "nothing": (b"", 0, "empty"),
    "half a header": (HEADER_LINE[:-1], 0, "cut off"),
    "half an observation": (BEGUN + OBSERVED[:-5], len(BEGUN), "cut off"),
}


@pytest.mark.parametrize(("data", "offset", "complaint"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_log_raises_one_error_that_names_the_offset(data: bytes, offset: int, complaint: str) -> None:
    for chunk in (1 if len(data) < 10_000 else 1000, 1 << 20):
        with pytest.raises(TrainingLogError) as caught:
            list(read_events(io.BytesIO(data), chunk=chunk))
        assert caught.value.offset == offset
        assert complaint in str(caught.value)
        assert f"(at byte {offset})" in str(caught.value)
    unpickled = pickle.loads(pickle.dumps(caught.value))
    assert (str(unpickled), unpickled.offset) == (str(caught.value), offset)


def test_events_before_the_damage_are_returned_first() -> None:
    events = read_events(io.BytesIO(BEGUN + OBSERVED + b"garbage\n"))
    assert [type(next(events)), type(next(events))] == [Context, Observation]
    with pytest.raises(TrainingLogError):
        next(events)


def test_the_writer_refuses_an_observation_without_a_context_or_of_another_size() -> None:
    out = io.BytesIO()
    writer = LogWriter(out, HEADER)
    with pytest.raises(ValueError, match="needs a context: call context"):
        writer.observation(PAYLOAD)
    writer.context("f")
    before = out.getvalue()
    for payload in (b"", PAYLOAD[:-1], PAYLOAD + b"\n"):
        with pytest.raises(ValueError, match=r"bytes, found \d+"):
            writer.observation(payload)
        assert out.getvalue() == before
    assert writer.observation(PAYLOAD) == 0


def test_the_writer_refuses_an_outcome_where_none_belongs() -> None:
    for header, reason in ((HEADER, "has no score"), (SCORED, "write the observation first")):
        writer = LogWriter(io.BytesIO(), header)
        writer.context("f")
        with pytest.raises(ValueError, match=reason):
            writer.outcome(1.0)
    writer.observation(PAYLOAD)
    writer.outcome(1.0)
    with pytest.raises(ValueError, match="once: write the observation first"):
        writer.outcome(1.0)
