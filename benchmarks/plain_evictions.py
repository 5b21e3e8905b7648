"""Whether clang's own evictions, read by a debugger from a plain compile, make its object when they are the answers.

    python -m benchmarks.plain_evictions --results docs/results/exactness.json --corpus snappy@Oz

Takes the exceptions of `benchmarks/own_choices.py` for evictions, and needs gdb and a clang 22 of a distribution, whose
libLLVM names its functions. A plain compile runs under gdb, which notes what the advisor chose for which register. The
compile that asks runs under gdb too, which notes for which register it asks; the answer is what the plain one chose
there. Told is at which questions that is not what `mlgo_gym.llvm.eviction_rule` says, and at how many of these a
weight is infinite, so that the others are not to be seen. A run that was cut off goes on where it was.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.checked_modules import CheckedModules, checking_parser
from benchmarks.own_choices import EVICT, TIMEOUT, make
from mlgo_gym.session.session import Session
from mlgo_gym.tasks.task import Task

INSIDE = Path(__file__).with_name("plain_evictions_in_gdb.py")
STOPPED = '#!/bin/sh\necho $$ > {mark}.new && mv {mark}.new {mark} && kill -STOP $$\nexec {clang} "$@"\n'

Call = tuple[int, float, int]
"""A register, its weight, and the column that was taken."""


def functions(log: Path) -> list[list[Call]]:
    """Return the calls of each function of a plain compile."""
    found: list[list[Call]] = []
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event[0] == "func":
            found.append([])
        elif event[0] == "call":
            register, weight = event[1:]
        elif event[0] == "took":
            found[-1].append((register, weight, event[1]))
    return found


def under_gdb(log: Path, *, asked: bool, words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start gdb."""
    environment = {**os.environ, "EVICTIONS_LOG": str(log), "EVICTIONS_ASKED": str(int(asked))}
    environment.pop("PYTHONPATH", None)
    command = ["gdb", "-q", "-batch", "-x", str(INSIDE), *words]
    with log.with_suffix(".gdb").open("wb") as said:
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said)


@contextmanager
def attached(mark: Path, log: Path) -> Iterator[None]:
    """Attach gdb to a program that has written its process number and stopped."""
    end = time.monotonic() + TIMEOUT
    while not mark.exists() or Path(f"/proc/{mark.read_text().strip()}/stat").read_text().rsplit(") ")[1][0] != "T":
        if time.monotonic() > end:
            raise TimeoutError(mark)
    pid = int(mark.read_text())
    process = under_gdb(log, asked=True, words=["-p", str(pid)])
    try:
        while not log.exists() or not log.read_text():
            if process.poll() is not None:
                raise RuntimeError(log.with_suffix(".gdb").read_text())
        os.kill(pid, signal.SIGCONT)
        yield
    finally:
        process.kill() if process.poll() is None else None
        process.wait()


class Follower:
    """Reads what gdb writes of the compile that asks: in which call of which function it is."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = 0
        self.function = self.call = -1
        self.register, self.weight = 0, 0.0

    def go_on(self) -> None:
        """Read what is new."""
        with self._log.open("rb") as file:
            file.seek(self._read)
            for line in file:
                event = json.loads(line)
                if event[0] == "func":
                    self.function, self.call = self.function + 1, -1
                elif event[0] == "call":
                    self.call += 1
                    self.register, self.weight = event[1:]
            self._read = file.tell()


def answer(command: Sequence[str], task: Task, plain: list[list[Call]], folder: Path) -> tuple[bytes, dict[str, Any]]:
    """Compile with the plain compile's choices as answers; return the object, and what was other than the rule."""
    mark, log, program = folder / "mark", folder / "asked.jsonl", folder / "clang"
    program.write_text(STOPPED.format(mark=mark, clang=command[0]))
    program.chmod(0o755)
    told: dict[str, Any] = {"questions": 0, "others": 0, "unseen": 0, "astray": 0}
    with Session([str(program), *command[1:]], task.advisors) as session, attached(mark, log):
        follower = Follower(log)
        while (decision := session.wait(TIMEOUT)) is not None:
            follower.go_on()
            header = session.header()
            assert header is not None
            features = np.frombuffer(decision.payload, header.dtype)
            mask = features["mask"].reshape(-1)
            ruled = int.from_bytes(task.default_advice(decision), "little")
            told["questions"] += 1
            calls = plain[follower.function]
            register, weight, taken = calls[follower.call] if follower.call < len(calls) else (0, 0.0, ruled)
            if (register, weight) != (follower.register, follower.weight) or not mask[taken]:
                told["astray"] += 1
                taken = ruled
            if taken != ruled:
                told["others"] += 1
                weights = features["use_def_density"].reshape(-1)
                told["unseen"] += any(math.isnan(each) for each in weights[mask == 1])
            session.advise(taken.to_bytes(8, "little"))
        return session.finish(TIMEOUT).object_bytes, told


def check(corpus: str, module: str, clang: str) -> dict[str, Any]:
    """Return whether a module's plain object is made of its plain compile's choices, and where the rule has others."""
    env = make(EVICT, corpus, clang=clang, preoptimize=False)
    compilation = env.compilation(env.corpus.module(module))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        made = folder / "plain.o"
        command = [shutil.which(clang) or clang, *compilation.command[1:]]
        process = under_gdb(folder / "plain.jsonl", asked=False, words=["--args", *command, "-o", str(made)])
        if process.wait(TIMEOUT) != 0 or not made.exists():
            raise RuntimeError((folder / "plain.gdb").read_text())
        again, told = answer(command, env.task, functions(folder / "plain.jsonl"), folder)
        return {**told, "equal": again == made.read_bytes()}


def main() -> None:
    """Check the exceptions that were not checked yet."""
    parser = checking_parser(__doc__, "runs/plain-evictions.jsonl")
    parser.add_argument("--results", type=Path, required=True, help="what benchmarks/exactness.py wrote")
    arguments = parser.parse_args()
    clang = arguments.clang or "clang-22"
    exceptions = [
        entry
        for entry in json.loads(arguments.results.read_bytes())["own"]
        if entry["environment"] == EVICT and not entry["equal"] and entry["corpus"] in arguments.corpus
    ]
    with CheckedModules(arguments.output) as checked:
        for entry in exceptions[: arguments.limit]:
            corpus, module = entry["corpus"], entry["module"]
            checked.check(EVICT, corpus, module, entry["clang"], partial(check, corpus, module, clang))


if __name__ == "__main__":
    main()
