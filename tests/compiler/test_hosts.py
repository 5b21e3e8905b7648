"""A compiler ends with its host, also with one that was killed, and a fork of the host leaves it to the original."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

from mlgo_gym.corpus.compilation import Compilation
from tests.traces import alive, ends_within

HOST = """
import fcntl, os, signal, sys
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.compiler.session import Session

def start(decisions=0):
    session = Session(sys.argv[1:], [INLINING])
    for number in range(decisions):
        if number:
            session.advise(bytes(8))
        assert session.wait(30) is not None
    return session

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

# Hosts that exit, and that are killed before the guard; tests/faults kills them at any later point.
original = fcntl.fcntl

def die_before_the_guard(descriptor, request, value=0):
    if request != fcntl.F_SETOWN:
        return original(descriptor, request, value)
    say(-value)
    os.kill(os.getpid(), signal.SIGKILL)

if os.fork() == 0:
    session = start(2)
    say(session.pid, os.getpid())
    os._exit(0)
os.wait()
if os.fork() == 0:
    fcntl.fcntl = die_before_the_guard
    start()
os.wait()
say()
say(len([name for name in sys.modules if "ptrace" in name]))

# Forks of a host that waits for a decision.
def close(session): session.close(); os._exit(0)
def kill(session): session.kill(); os._exit(0)
def leave(session): os._exit(0)
def collect(session): raise SystemExit

for copy in (close, kill, leave, collect):
    session = start(1)
    pid = os.fork()
    if pid == 0:
        copy(session)
    os.waitpid(pid, 0)
    decisions = 1
    session.advise(bytes(8))
    while session.wait(30) is not None:
        session.advise(bytes(8))
        decisions += 1
    say(decisions, len(session.finish(30).object_bytes))
say()
session = start(1)
copy = os.fork()
if copy == 0:
    signal.pause()
say(session.pid, copy)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_clang_ends_with_its_host_and_a_fork_leaves_it_to_the_original(compile_calls: Compilation) -> None:
    words = [sys.executable, "-c", HOST, *compile_calls.command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        lines: Iterator[list[int]] = ([int(word) for word in line.split()] for line in host.stdout)
        ended = 0
        while pids := next(lines):
            assert all(ends_within(pid, 10) for pid in pids)
            ended += 1
        assert ended == 2
        assert next(lines) == [0]  # only copies need ptrace
        compiled = list(iter(lines.__next__, []))
        assert compiled == [compiled[0]] * 4
        assert compiled[0][0] == 9
        assert compiled[0][1] > 0
        pid, copy = next(lines)
        try:
            assert ends_within(pid, 10)
            assert alive(copy)
        finally:
            os.kill(copy, signal.SIGKILL)
    assert host.returncode == -signal.SIGKILL
