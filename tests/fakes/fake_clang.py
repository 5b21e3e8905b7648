"""A fake clang with one fault, for faults that a real clang cannot be made to show.

It answers the protocol of `mlgo_gym.llvm.advisors` with a conversation of its own, or replays a recorded one; it
compiles nothing. `fake_clang(behaviour)` returns its command for a `Session`; `FaultyClang` is a program for the
argument `clang` of an environment. The behaviours without a fault:

ask:N    requests N decisions, and writes the advice as its object.
replay   repeats the recording; the object of the recording is its object.

Faults at a point: `exit`, `crash`, `stall`, `chatter` (10 MB on standard error, then exit), `heir` (exits and leaves a
child running), `heir-of-success` (leaves a child running and continues), `no-folder` (removes the folder of its
channels), or a signal such as `SIGINT` to its parent; then `@` and one of the points

start      before it opens its channels
half       in the middle of its header
header     after its header
question   in the middle of its second observation
answer     after reading the first advice
end        after the last decision, before it writes an object

Other faults of its messages: `other-version`, `huge-question`, `not-json`, `garbage`, `endless-line` (the header);
`too-short`, `no-number`, `outcome` (the second observation); `no-context`, `no-question`; `flood` (writes to standard
error without end from its first decision on); `close-log`, `close-advice`, `deaf` (never reads advice). Faults of its
object: `object:missing`, `object:empty`, `object:cut`, `object:text`, or `object:NAME` for the object `NAME.o` of the
recording.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

_CHILD = ("sleep", "600")
_TENSOR = '{"name":"%s","type":"int64_t","port":0,"shape":[1]}'
_HEADER = f'{{"features":[{_TENSOR % "a"}],"advice":{_TENSOR % "decision"}}}\n'

_BEHAVIOURS = re.compile(
    r"(exit|crash|stall|chatter|heir|heir-of-success|no-folder|SIG[A-Z]+)@(start|half|header|question|answer|end)|"
    r"ask:\d+|replay|other-version|huge-question|not-json|garbage|endless-line|too-short|no-number|outcome|no-context|"
    r"no-question|flood|close-log|close-advice|deaf|object:\w+"
)


def fake_clang(behaviour: str, recording: Path | None = None) -> tuple[str, ...]:
    """Return the command of a fake clang, for `Session(fake_clang("crash@answer"), [INLINING])`.

    Without a conversation that `FaultyClang` has recorded, it has two decisions of one feature.
    """
    assert _BEHAVIOURS.fullmatch(behaviour), behaviour
    return (sys.executable, "-I", "-S", __file__, behaviour, "" if recording is None else str(recording))


class _Fake:
    """One run of the fake clang."""

    def __init__(self, behaviour: str, recording: str, arguments: list[str]) -> None:
        self._what, _, self._when = behaviour.partition("@")
        self._arguments = arguments
        self._recording = Path(recording) if recording else None
        self._record_pid(os.getpid())

    def _record_pid(self, pid: int) -> None:
        if self._recording is not None:
            with self._recording.with_suffix(".pids").open("a", encoding="ascii") as file:
                file.write(f"{pid}\n")

    def run(self) -> None:
        """Compile nothing: talk, fail, or write an object."""
        header, questions = self._conversation()
        for word in self._arguments:
            # As clang, which exits without an argument that a host sends only to a guarded process.
            if word.startswith("@/proc/") and not _contents(word[1:]):
                os._exit(1)
        self._at("start")
        base = self._base()
        advice, log = os.open(f"{base}.in", os.O_RDONLY), os.open(f"{base}.out", os.O_WRONLY)
        if self._when == "half":
            _write(log, header[: len(header) // 2])
            self._fail()
        _write(log, self._header(header))
        self._at("header")
        if self._what != "no-context":
            _write(log, b'{"context":""}\n')
        if self._what == "close-log":
            os.close(log)
            signal.pause()
        answers = bytearray()
        for number, payload in enumerate(questions):
            data = self._question(number, payload)
            if self._when == "question" and number == 1:
                _write(log, data[: len(data) // 2])
                self._fail()
            _write(log, data)
            while self._what == "flood":
                _write(2, b"x" * 4096)
            if number == 0 or self._what not in ("deaf", "close-advice"):
                answers += _answer(advice)
            if number == 0:
                self._at("answer")
                if self._what == "close-advice":
                    os.close(advice)
        self._at("end")
        self._finish(bytes(answers) if self._recording is None else self._recorded_object(".o"))

    def _base(self) -> str:
        return next(word.partition("=")[2] for word in self._arguments if "channel-base=" in word)

    def _conversation(self) -> tuple[bytes, list[bytes]]:
        """Return the header and the payloads of the observations."""
        if self._recording is not None:
            recorded = json.loads(self._recording.read_text(encoding="ascii"))
            header, questions = recorded["header"].encode(), [bytes.fromhex(text) for text in recorded["questions"]]
        else:
            count = int(self._what.removeprefix("ask:")) if self._what.startswith("ask:") else 2
            header, questions = _HEADER.encode(), [number.to_bytes(8, "little") for number in range(count)]
        if self._what == "no-question":
            questions = []
        return header, questions * (2000 if self._what == "deaf" else 1)

    def _at(self, point: str) -> None:
        if point == self._when:
            self._fail()

    def _fail(self) -> None:
        what = self._what
        if what == "exit":
            self._die()
        if what == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if what == "stall":
            signal.pause()
        if what == "chatter":
            for _ in range(160):
                os.write(2, b"x" * 65535 + b"\n")
            self._die()
        if what in ("heir", "heir-of-success"):
            self._record_pid(subprocess.Popen(_CHILD, close_fds=False).pid)
            if what == "heir":
                self._die()
        if what.startswith("SIG"):
            os.kill(os.getppid(), getattr(signal, what))
            signal.pause()
        if what == "no-folder":
            shutil.rmtree(Path(self._base()).parent)
            os.write(2, b"Cannot open inbound file\n")
            os._exit(1)

    def _die(self) -> NoReturn:
        os.write(2, f"fatal error: lost at the {self._when}\n".encode())
        os._exit(1)

    def _header(self, original: bytes) -> bytes:
        """Return the header, with its fault."""
        if self._what == "other-version":
            value = json.loads(original)
            value["features"].append({"name": "new_feature", "type": "int64_t", "port": 0, "shape": [1]})
            return json.dumps(value, separators=(",", ":")).encode() + b"\n"
        faulty = {
            "huge-question": original.replace(b'"shape":[1]', b'"shape":[4000000000]', 1),
            "not-json": original[: len(original) // 2] + b"\n",
            "garbage": b"\x00\xff\x13garbage\n",
            "endless-line": b"x" * (2 << 20),
        }
        return faulty.get(self._what, original)

    def _question(self, number: int, payload: bytes) -> bytes:
        """Return an observation, with its fault."""
        if self._what == "other-version":
            payload += bytes(8)
        complete = b'{"observation":%d}\n' % number + payload + b"\n"
        faulty = {
            "too-short": b'{"observation":1}\n' + payload[:-8] + b"\n" + bytes(8),
            "no-number": complete.replace(b":1", b":7", 1),
            "outcome": b'{"outcome":0}\n' + bytes(8) + b"\n" + complete,
        }
        return faulty.get(self._what, complete) if number == 1 else complete

    def _finish(self, data: bytes) -> None:
        """Write the object, with its fault."""
        if self._what.startswith("object:"):
            kind = self._what.removeprefix("object:")
            faulty = {
                "empty": b"",
                "missing": b"",
                "cut": data[: len(data) // 2],
                "text": b"this is no object file\n" * 10,
            }
            data = faulty[kind] if kind in faulty else self._recorded_object(f".{kind}.o")
        words = self._arguments
        output = words[words.index("-o") + 1] if "-o" in words else f"{Path(self._recording or 'fake').stem}.o"
        if output == "-":
            _write(1, data)
        elif self._what != "object:missing":
            Path(output).write_bytes(data)

    def _recorded_object(self, suffix: str) -> bytes:
        assert self._recording is not None, "only a recording has objects"
        return self._recording.with_suffix(suffix).read_bytes()


def _contents(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:  # the host has exited
        return b""


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _answer(advice: int) -> bytes:
    received = b""
    while len(received) < 8:
        received += os.read(advice, 8 - len(received))
    return received


if __name__ == "__main__":
    _Fake(sys.argv[1], sys.argv[2], sys.argv[3:]).run()
