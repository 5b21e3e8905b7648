"""A fake clang that replays a recorded session with one fault at one point.

`$MLGO_FAULT` is `WHAT@WHEN`; `$MLGO_RECORDING` is the file of `recording.py`. The points are:

start      before it opens its channels
header     after its header
question   in the middle of its second observation
answer     after reading the first advice
end        after the last decision, before it writes an object

Its process id, and that of a child that it leaves running, are written to `$MLGO_FAULT_PIDS`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

WHAT, _, WHEN = os.environ["MLGO_FAULT"].partition("@")
RECORDING = Path(os.environ["MLGO_RECORDING"])
CHILD = ["sleep", "600"]


def record_pid(pid: int) -> None:
    with Path(os.environ["MLGO_FAULT_PIDS"]).open("a", encoding="ascii") as file:
        file.write(f"{pid}\n")


def die(status: int = 1) -> NoReturn:
    os.write(2, f"fatal error: lost at the {WHEN}\n".encode())
    os._exit(status)


def at(point: str) -> None:
    """Fail here if this is the point."""
    if point == WHEN:
        fail()


def fail() -> None:
    if WHAT == "exit":
        die()
    if WHAT == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if WHAT == "stall":
        signal.pause()
    if WHAT == "chatter":
        for _ in range(160):
            os.write(2, b"x" * 65535 + b"\n")
        die()
    if WHAT == "heir":
        record_pid(subprocess.Popen(CHILD, close_fds=False).pid)
        die()
    if WHAT == "heir-of-success":
        record_pid(subprocess.Popen(CHILD, close_fds=False).pid)
    if WHAT.startswith("SIG"):
        os.kill(os.getppid(), getattr(signal, WHAT))
        signal.pause()
    if WHAT == "no-folder":
        shutil.rmtree(Path(base()).parent)
        os.write(2, b"Cannot open inbound file\n")
        os._exit(1)


def base() -> str:
    return next(word.partition("=")[2] for word in sys.argv if "channel-base=" in word)


def header(original: bytes) -> bytes:
    """Return the header, with its fault."""
    if WHAT == "other-version":
        value = json.loads(original)
        value["features"].append({"name": "new_feature", "port": 0, "shape": [1], "type": "int64_t"})
        return json.dumps(value, separators=(",", ":")).encode() + b"\n"
    if WHAT == "huge-question":
        return original.replace(b'"shape":[1]', b'"shape":[4000000000]', 1)
    if WHAT == "not-json":
        return original[: len(original) // 2] + b"\n"
    if WHAT == "garbage":
        return b"\x00\xff\x13garbage\n"
    if WHAT == "endless-line":
        return b"x" * (2 << 20)
    return original


def question(number: int, payload: bytes) -> bytes:
    """Return an observation, with its fault."""
    if WHAT == "other-version":
        payload += bytes(8)
    complete = b'{"observation":%d}\n' % number + payload + b"\n"
    if number != 1:
        return complete
    if WHAT == "too-short":
        return b'{"observation":1}\n' + payload[:-8] + b"\n" + bytes(8)
    if WHAT == "no-number":
        return complete.replace(b":1", b":7", 1)
    if WHAT == "outcome":
        return b'{"outcome":0}\n' + bytes(8) + b"\n" + complete
    return complete


def main() -> None:
    record_pid(os.getpid())
    recorded = json.loads(RECORDING.read_text(encoding="ascii"))
    questions = [bytes.fromhex(each) for each in recorded["questions"]]
    at("start")
    advice = os.open(f"{base()}.in", os.O_RDONLY)
    log = os.open(f"{base()}.out", os.O_WRONLY)
    write(log, header(recorded["header"].encode()))
    at("header")
    if WHAT != "no-context":
        write(log, b'{"context":""}\n')
    if WHAT == "no-question":
        questions = []
    if WHAT == "close-log":
        os.close(log)
        signal.pause()
    if WHAT == "deaf":
        questions *= 2000
    for number, payload in enumerate(questions):
        data = question(number, payload)
        if WHEN == "question" and number == 1:
            write(log, data[: len(data) // 2])
            fail()
        write(log, data)
        if number == 0 or WHAT not in ("deaf", "close-advice"):
            answer(advice)
        if number == 0:
            at("answer")
            if WHAT == "close-advice":
                os.close(advice)
    at("end")
    finish(RECORDING.with_suffix(".o").read_bytes())


def write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def answer(advice: int) -> None:
    received = b""
    while len(received) < 8:
        received += os.read(advice, 8 - len(received))


def finish(data: bytes) -> None:
    """Write the object, with its fault."""
    if WHAT in ("object:empty", "object:missing"):
        data = b""
    elif WHAT == "object:cut":
        data = data[: len(data) // 2]
    elif WHAT == "object:text":
        data = b"this is no object file\n" * 10
    elif WHAT.startswith("object:"):
        data = RECORDING.with_suffix(f".{WHAT.partition(':')[2]}.o").read_bytes()
    output = sys.argv[sys.argv.index("-o") + 1] if "-o" in sys.argv else "faulty.o"
    if output == "-":
        write(1, data)
    elif WHAT != "object:missing":
        Path(output).write_bytes(data)


if __name__ == "__main__":
    main()
