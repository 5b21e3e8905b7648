"""Somebody else's model runs in a process of its own: whatever that does, the host goes on."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mlgo_gym.errors import PolicyError
from mlgo_gym.policies import foreign_model, model_process
from mlgo_gym.policies.foreign_model import ForeignModel
from mlgo_gym.policies.model_process import ModelProcess, ModelProcessError
from mlgo_gym.session.confinement import confinement_support
from tests.traces import alive, children, ends_within

pytestmark = pytest.mark.usefixtures("nothing_is_left")

MOST = 1 << 16
HEAD = """
import os, signal, struct, sys, time
requests, answers = map(int, sys.argv[2:4])
def hear():
    letter, size = struct.unpack("<cI", os.read(requests, 5))
    data = b""
    while len(data) < size:
        data += os.read(requests, size - len(data))
    return letter, data
def say(letter, data):
    os.write(answers, struct.pack("<cI", letter, len(data)) + data)
"""
ECHO = "while True: say(*hear())"

Start = Callable[..., ModelProcess]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Return a function that returns a process which runs a program of a test's own."""
    made: list[ModelProcess] = []

    def make(program: str, seconds: float = 20.0) -> ModelProcess:
        path = tmp_path / "worker.py"
        path.write_text(HEAD + program)
        monkeypatch.setattr(model_process, "WORKER", path)
        monkeypatch.setattr(foreign_model, "find_spec", lambda _: True)
        made.append(ModelProcess("tflite", seconds))
        return made[-1]

    yield make
    for process in made:
        process.close()


def test_an_answer_is_what_the_process_says(start: Start) -> None:
    process = start(ECHO)
    assert process.ask(b"M", [b"one", b" two"], MOST) == (b"M", b"one two")
    assert process.ask(b"R", [], MOST) == (b"R", b"")
    large = os.urandom(3_000_000)
    assert process.ask(b"R", [large], len(large)) == (b"R", large)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("hear(); os.kill(os.getpid(), signal.SIGSEGV)", r"ended by signal 11 \(SIGSEGV\); take another model$"),
        ("os.kill(os.getpid(), signal.SIGKILL)", r"ended by signal 9 \(SIGKILL\)"),
        ("sys.stderr.write('INFO: hello\\nno such thing\\n'); sys.exit(3)", "exit status 3; .*: no such thing$"),
        ("os.close(answers); time.sleep(60)", r"ended by signal 9"),
        ("hear(); say(b'O', bytes(70_000)); time.sleep(60)", "65,536 bytes at most, and is of 70,000"),
        ("hear(); raise MemoryError", "needs more than 4 GiB of memory"),
        ("hear(); os.write(2, b'terminate: std::bad_alloc'); os.abort()", "needs more than 4 GiB of memory"),
        ("os.write(2, bytes(1 << 20)); sys.exit(4)", "exit status 4"),
    ],
)
def test_a_process_that_fails_is_an_error_and_the_next_request_has_another(
    start: Start, program: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_process, "_ENDING_SECONDS", 1.0)
    process = start(program)
    with pytest.raises(ModelProcessError, match=message):
        process.ask(b"M", [b"model"], MOST)
    assert (process.pid, process.holds) == (0, None)
    model_process.WORKER.write_text(HEAD + ECHO)
    assert process.ask(b"M", [b"model"], MOST) == (b"M", b"model")


@pytest.mark.parametrize(
    ("program", "size"),
    [("hear()\nwhile True: pass", 9), ("time.sleep(60)", 1_000_000), ("hear(); os.write(answers, b'D'); hear()", 9)],
    ids=["computes", "does not read", "stops in an answer"],
)
def test_one_that_does_not_answer_in_time_is_ended(start: Start, program: str, size: int) -> None:
    process = start(program, seconds=0.3)
    with pytest.raises(ModelProcessError, match=r"was to answer within 0.3 s and did not, and its process was ended"):
        process.ask(b"M", [bytes(size)], MOST)
    assert process.pid == 0


@pytest.mark.skipif(not confinement_support()[0], reason="nothing here keeps a process from writing")
def test_it_cannot_write_files(start: Start, tmp_path: Path) -> None:
    process = start(f"""
hear()
try:
    open({str(tmp_path / "written")!r}, "w")
except OSError as error:
    say(b"E", type(error).__name__.encode())
hear()
""")
    assert process.ask(b"M", [], MOST) == (b"E", b"PermissionError")


@pytest.mark.parametrize(
    "said",
    [b"{", b"[]", b"[[], []", b"[[[1]], []]", b"[" * 9999, b'[[["a", [1], "int64"]], [["b", [-1], "int64"]]]', b"\xff"],
)
def test_a_description_that_is_none_is_refused(start: Start, said: bytes, tmp_path: Path) -> None:
    process = start(f"hear(); say(b'D', {said!r}); hear()")
    (tmp_path / "model").write_bytes(b"x")
    with pytest.raises(PolicyError, match="what its process says of it cannot be read"):
        ForeignModel("tflite", tmp_path / "model", process)


def test_an_output_of_another_size_is_refused(start: Start, tmp_path: Path) -> None:
    said = b'[[], [["b", [2], "int64"]]]'
    process = start(f"hear(); say(b'D', {said!r}); hear(); say(b'O', bytes(8)); hear()")
    (tmp_path / "model").write_bytes(b"x")
    with pytest.raises(PolicyError, match="b was to be 16 bytes, and is 8"):
        ForeignModel("tflite", tmp_path / "model", process).run(0, [])


def test_it_ends_with_the_object_that_asks(start: Start) -> None:
    process = ModelProcess("tflite")
    assert start(ECHO).ask(b"M", [], MOST)
    process.ask(b"M", [], MOST)
    pid = process.pid
    assert alive(pid)
    del process
    gc.collect()
    assert not alive(pid)


def test_closing_twice_is_closing_once(start: Start) -> None:
    before = children()
    process = start(ECHO)
    process.close()
    process.ask(b"M", [], MOST)
    assert children() - before == {process.pid}
    process.close()
    process.close()
    assert children() == before


def test_after_a_ctrl_c_no_answer_is_taken_for_another(start: Start) -> None:
    process = start("""
while True:
    letter, data = hear()
    if data == b"interrupt":
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(0.2)
    say(letter, data)
""")
    with pytest.raises(KeyboardInterrupt):
        process.ask(b"M", [b"interrupt"], MOST)
    assert process.ask(b"M", [b"after"], MOST) == (b"M", b"after")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_copy_of_the_host_has_a_process_of_its_own(start: Start) -> None:
    process = start(ECHO)
    process.ask(b"M", [], MOST)
    process.holds = held = object()
    pid = process.pid
    copy = os.fork()
    if copy == 0:
        status = 1
        try:
            assert (process.pid, process.holds) == (0, None)
            assert process.ask(b"M", [b"copy"], MOST) == (b"M", b"copy")
            assert process.pid != pid
            assert process.holds is None
            process.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]) == 0
    assert process.ask(b"M", [b"original"], MOST) == (b"M", b"original")
    assert (process.pid, process.holds) == (pid, held)


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)", "sys.exit(0)", "1 / 0"])
def test_it_ends_with_the_host_however_that_ends(end: str, start: Start) -> None:
    start(ECHO)
    program = f"""
import os, pathlib, signal, sys
from mlgo_gym.policies import foreign_model, model_process
model_process.WORKER = pathlib.Path({str(model_process.WORKER)!r})
process = model_process.ModelProcess("tflite")
process.ask(b"M", [], 9)
print(process.pid, flush=True)
{end}
"""
    host = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert ends_within(int(host.stdout), 10)
