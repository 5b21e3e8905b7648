"""A compiler ends with its host, also with one that was killed, and a fork of the host leaves it to the original."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from mlgo_gym.corpus.commands.compilation import Compilation
from tests.traces import alive, ends_within

LONG = 60.0

HOST = """
import os, signal, sys
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.session import Session

def start(decisions=0):
    session = Session(sys.argv[1:], [INLINING])
    for number in range(decisions):
        if number:
            session.advise(bytes(8))
        assert session.wait(30) is not None
    return session

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""


def start_host(compilation: Compilation, then: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOST + then, *compilation.command]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def words_of(host: subprocess.Popen[str]) -> list[int]:
    assert host.stdout is not None
    return [int(word) for word in host.stdout.readline().split()]


ENDS = """
import fcntl
original = fcntl.fcntl

def die_before_the_guard(descriptor, request, value=0):
    if request != fcntl.F_SETOWN:
        return original(descriptor, request, value)
    say(-value)
    os.kill(os.getpid(), signal.SIGKILL)

for decisions in range(4):
    for end in ("kill", "exit"):
        if os.fork() == 0:
            session = start(decisions)
            say(session.pid, os.getpid())
            os.kill(os.getpid(), signal.SIGKILL) if end == "kill" else os._exit(0)
        os.wait()
if os.fork() == 0:
    fcntl.fcntl = die_before_the_guard
    start()
os.wait()
say()
print([name for name in sys.modules if "ptrace" in name])
"""


def test_clang_ends_with_a_host_that_is_killed_or_exits_at_any_point(compile_calls: Compilation) -> None:
    with start_host(compile_calls, ENDS) as host:
        lines = 0
        while pids := words_of(host):
            assert all(ends_within(pid, 10) for pid in pids)
            lines += 1
        assert lines == 9
        assert host.stdout is not None
        assert host.stdout.read() == "[]\n"  # only copies need ptrace
    assert host.returncode == 0


COPIES = """
def close(session): session.close(); os._exit(0)
def kill(session): session.kill(); os._exit(0)
def leave(session): os._exit(0)
def collect(session): raise SystemExit

def use_original(session):
    decisions = 1
    session.advise(bytes(8))
    while session.wait(30) is not None:
        session.advise(bytes(8))
        decisions += 1
    return decisions, len(session.finish(30).object_bytes)

for copy in (close, kill, leave, collect):
    session = start(1)
    pid = os.fork()
    if pid == 0:
        copy(session)
    os.waitpid(pid, 0)
    say(*use_original(session))
session = start(1)
copy = os.fork()
if copy == 0:
    signal.pause()
say()
say(session.pid, copy)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_fork_of_the_host_leaves_the_compiler_to_the_original_also_at_its_end(compile_calls: Compilation) -> None:
    with start_host(compile_calls, COPIES) as host:
        lines = []
        while words := words_of(host):
            lines.append(words)
        assert lines == [lines[0]] * 4
        assert lines[0][0] == 9
        assert lines[0][1] > 0
        pid, copy = words_of(host)
        try:
            assert ends_within(pid, 10)
            assert alive(copy)
        finally:
            os.kill(copy, signal.SIGKILL)
    assert host.returncode == -signal.SIGKILL
