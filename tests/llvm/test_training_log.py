"""LLVM's training-log format, read and written. Fuzzing damages logs."""

import io
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mlgo_clang.errors import ProtocolError
from mlgo_clang.protocol import LONGEST_LINE
from mlgo_gym.llvm.advisors import ADVISORS, EVICTION, INLINING, Advisor
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.llvm.training_log import (
    SCALAR_TYPES,
    LogDecoder,
    LogHeader,
    LogWriter,
    TensorSpec,
)
from tests.conftest import PROGRAMS, MakeBitcode

SIZES = {"float": 4, "double": 8, **{f"{sign}int{8 * n}_t": n for sign in ("", "u") for n in (1, 2, 4, 8)}}

HEADER = LogHeader((TensorSpec("a", "int64_t", (1,)), TensorSpec("b", "float", (2,))))
SCORED = LogHeader(HEADER.features, score=TensorSpec("reward", "float", (1,)))
PAYLOAD = struct.pack("<qff", 10, 0.5, -2.0)
HEADER_LINE = HEADER.json.encode() + b"\n"
BEGUN = HEADER_LINE + b'{"context":"f"}\n'
OBSERVED = b'{"observation":0}\n' + PAYLOAD + b"\n"

Event = str | tuple[int, bytes]
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


def decode(log: bytes, chunk: int = 1 << 20) -> tuple[LogDecoder, list[Event]]:
    """Decode the pieces of a log."""
    decoder, events = LogDecoder(), []
    for start in range(0, len(log), chunk):
        decoder.feed(log[start : start + chunk])
        while (event := decoder.next_event()) is not None:
            events.append(event)
    return decoder, events


def written(header: LogHeader, events: list[Event]) -> bytes:
    out = io.BytesIO()
    writer = LogWriter(out, header)
    for event in events:
        if isinstance(event, str):
            writer.context(event)
        else:
            assert writer.observation(event[1]) == event[0]
    return out.getvalue()


def rewritten(log: bytes) -> bytes:
    decoder, events = decode(log)
    assert decoder.header is not None
    return written(decoder.header, events)


def test_every_scalar_type_of_llvm_has_the_bytes_of_numpy_and_survives_json() -> None:
    assert {*SCALAR_TYPES} == {*SIZES}
    for scalar, size in SIZES.items():
        spec = TensorSpec("a", scalar, (3, 4), port=2)
        assert TensorSpec.parse(spec.json) == spec
        assert json.loads(spec.json) == {"name": "a", "type": scalar, "port": 2, "shape": [3, 4]}
        assert (spec.size, spec.nbytes) == (12, 12 * size)
    assert np.frombuffer(b"\x01\x00\x00\x00\x00\x00\x00\x80", SCALAR_TYPES["int64_t"])[0] == 1 - 2**63


@pytest.mark.parametrize("advisor", ADVISORS, ids=lambda advisor: advisor.name)
def test_the_writer_writes_the_bytes_of_clang(any_toolchain: Toolchain, advisor: Advisor, raw_log: WriteLog) -> None:
    log = raw_log(any_toolchain, advisor, "calls.c" if advisor is INLINING else "pressure.c")
    assert log.count(b'{"observation":') > 1
    assert rewritten(log) == log
    if advisor is INLINING:
        decoder, events = decode(log)
        assert decoder.header is not None
        assert decoder.header.advice == TensorSpec("inlining_decision", "int64_t", (1,))
        assert isinstance(events[1], tuple)
        first = np.frombuffer(events[1][1], decoder.header.dtype)[0]
        assert first["callee_basic_block_count"] == 1


def test_names_that_json_escapes_and_no_utf_8_are_written_as_by_clang(toolchain: Toolchain, raw_log: WriteLog) -> None:
    log = raw_log(toolchain, EVICTION, "odd_names.ll")
    contexts = [event for event in decode(log)[1] if isinstance(event, str)]
    assert contexts == ['quote"', "back\\slash", "tab\tand\nline", "caf\u00e9", "bell\x07"]
    assert rewritten(log) == log
    out = io.BytesIO()
    LogWriter(out, SCORED).context("o\udcffd caf\u00e9")
    assert out.getvalue().endswith('\n{"context":"o\ufffdd caf\u00e9"}\n'.encode())


def test_a_log_with_scores_is_that_of_llvm_and_observations_are_numbered_within_their_context() -> None:
    out = io.BytesIO()
    writer = LogWriter(out, SCORED)
    writer.context("f")
    assert writer.observation(PAYLOAD) == 0
    writer.outcome(1.5)
    assert out.getvalue() == (
        b'{"features":[{"name":"a","type":"int64_t","port":0,"shape":[1]},'
        b'{"name":"b","type":"float","port":0,"shape":[2]}],'
        b'"score":{"name":"reward","type":"float","port":0,"shape":[1]}}\n'
        b'{"context":"f"}\n{"observation":0}\n' + PAYLOAD + b'\n{"outcome":0}\n\x00\x00\xc0\x3f\n'
    )
    numbers = []
    for name in ("g", "f"):
        writer.context(name)
        numbers += [writer.observation(PAYLOAD), writer.observation(PAYLOAD)]
    assert numbers == [0, 1, 1, 2]


def test_every_log_is_read_back_however_its_bytes_are_cut() -> None:
    """Payloads look like lines."""
    events: list[Event] = []
    for name, count in (("f", 2), ('h"\n\\\u00e9', 0), ("", 1)):
        events.append(name)
        events += [(number, b'\n{"context":"x"}') for number in range(count)]
    data = written(HEADER, events)
    assert all(decode(data, chunk)[1] == events for chunk in range(1, 60))


_HEADER_ERROR = "expected a header of features and advice, got"
# A log, and a part of the error.
FIRST_LINES = [
    *((line, _HEADER_ERROR) for line in (b"clang: hello\n", b"{}\n", b'{"features":[]}\n', b'{"features":[1]}\n')),
    *(
        (HEADER_LINE.replace(old, new), complaint)
        for old, new, complaint in (
            (b'"name":"a"', b'"name":null', "expected a tensor with a name"),
            (b'"type":"float"', b'"type":null', "expected a tensor with a name"),
            (b'"shape":[1]', b'"shape":null', "expected a tensor with a name"),
            (b'"shape":[2]', b'"shape":[1.0]', "expected a tensor with a name"),
            (b'"shape":[2]', b'"shape":[02]', _HEADER_ERROR),
            (b'"port":0', b'"port":true', "expected a tensor with a name"),
            (b',"port":0', b"", "expected a tensor with a name"),
            (b'"type":"float"', b'"type":"half"', "known are"),
            (b'"shape":[2]', b'"shape":[1,-1]', "at least 1"),
        )
    ),
    (HEADER_LINE.replace(b'"b"', b'"a"'), "twice"),
    (b" " * (LONGEST_LINE + 1), "a line of at most"),
]
LATER_LINES = [
    (HEADER_LINE, b'{"context":"\xff"}\n', "expected a context with a name"),
    *((HEADER_LINE, b'{"context":"f%s"}\n' % end, "expected a context with a name") for end in (b"\\", b'"g')),
    (HEADER_LINE, OBSERVED, "expected a context"),
    (HEADER_LINE, b'{"context":"f","outcome":0}\n', "expected a context with a name"),
    (HEADER_LINE, b'{"context":3}\n', "expected a context with a name"),
    (BEGUN, OBSERVED.replace(b":0", b":1"), "expected observation 0 of context 'f', got 1"),
    *((BEGUN, b'{"observation":%s}\n' % number, "an observation with a number") for number in (b'"x"', b"true", b"-1")),
    (BEGUN + OBSERVED[:-1], b"\x00\n", "expected 16 bytes of tensors and a newline, got b'\\x00'"),
    (BEGUN + OBSERVED, b'{"outcome":0}\n', "an observation with a number, got"),
]


def test_a_malformed_log_raises_one_error_that_names_the_offset() -> None:
    for before, data, complaint in (*((b"", *line) for line in FIRST_LINES), *LATER_LINES):
        for chunk in (1 if len(data) < 10_000 else 1000, 1 << 20):
            with pytest.raises(ProtocolError) as caught:
                decode(before + data, chunk)
            assert complaint in str(caught.value), data[:99]
            assert str(caught.value).endswith(f"(at byte {len(before)})"), data[:99]
