"""The channel in C reads what the decoder in Python reads, however the bytes are cut."""

import os
import random
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlgo_clang.channel import Channel, inlining_rule
from mlgo_clang.compiler import compiler_command
from mlgo_clang.errors import ProtocolError
from mlgo_clang.native import NativeNetwork
from mlgo_clang.protocol import Header, Tensor

if TYPE_CHECKING:
    from mlgo_clang.channel import Bind

NUMBERS = ("callee_users", "cost_estimate")
HEADER = Header([Tensor(name, "int64_t", (1,)) for name in NUMBERS], Tensor("advice", "int64_t", (1,)))
LINES = (b'{"context":"f"}\n', b'{"observation":0}\n')


def answers(bind: "Bind", pieces: list[bytes], folder: Path) -> tuple[bytes, bool]:
    """Return what a server answers to a log, and whether the log is damaged."""
    folder.mkdir()
    channel = Channel(f"{folder}/channel", bind, prints=False)
    channel.open()
    log = os.open(f"{folder}/channel.out", os.O_WRONLY)
    try:
        for piece in pieces:
            os.write(log, piece)
            assert channel.serve((), 0, -1)  # clang can still write
        damaged = False
    except ProtocolError:
        damaged = True
    finally:
        os.close(log)
        written = os.read(channel.advice, 1 << 16) if channel.decisions else b""
        channel.close()
    return written, damaged


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> NativeNetwork:
    path = tmp_path_factory.mktemp("rule") / "threshold.rule"
    path.write_text("cost_estimate < 20\n")
    return NativeNetwork(f"rule:{path}", compiler_command("bundled", "gcc"))


@pytest.mark.parametrize("seed", range(6))
def test_a_log_is_answered_alike(seed: int, native: NativeNetwork, tmp_path: Path) -> None:
    chance = random.Random(seed)
    rule = inlining_rule("threshold:20")
    assert rule is not None
    payloads = [
        struct.pack("<qq", int.from_bytes(chance.choice(LINES)[:8], "little"), chance.randrange(40)) for _ in range(30)
    ]
    pieces = [HEADER.json.encode() + b'\n{"context":""}\n']
    pieces += [b'{"observation":%d}\n%s\n' % observation for observation in enumerate(payloads)]
    log = b"".join(pieces)
    cuts = sorted(chance.sample(range(len(log)), chance.choice((0, 3, 200))))
    if seed:
        pieces = [log[start:end] for start, end in zip([0, *cuts], [*cuts, len(log)], strict=True)]
    expected = b"".join(struct.pack("<q", cost < 20) for _, cost in map(struct.Struct("<qq").unpack, payloads))
    for name, bind in (("rule", rule), ("native", native.bind)):
        assert answers(bind, pieces, tmp_path / name) == (expected, False)
        # Another byte in place of a line's first or of the newline after the tensors.
        end = log.rindex(LINES[1][:14])
        for position in (end, len(log) - 1):
            damaged = [log[:position] + b"x" + log[position + 1 :] + LINES[1]]
            assert answers(bind, damaged, tmp_path / f"{name}{position}") == (expected[:-8], True)
