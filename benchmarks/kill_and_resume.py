"""Kills and resumes `mlgo-gym evaluate`; prints whether the table is that of an uninterrupted run.

    python benchmarks/kill_and_resume.py --kills 20 --jobs 2
    python benchmarks/kill_and_resume.py --kills 20 --limit 6 --jobs 2 --ray

An evaluation gets SIGKILL at a random moment and is started again with the same output, until it ends by itself. The
next one starts with an empty output, until `--kills` is reached. After each kill the program waits for all processes
that the evaluation had started: workers, compilers, a cluster. It adopts those whose parent has died. The exit status
is 1 if a table or an episode differs, or a process runs on for long.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAM = Path(sys.executable).with_name("mlgo-gym")
PR_SET_CHILD_SUBREAPER = 36
MAX_SECONDS = 30.0
"""Seconds after a kill in which the evaluation's processes must end."""

MAX_COMPILER_SECONDS = 10.0
"""Seconds after a kill in which its compilers must end."""

LATE = ("ray::DashboardAgent", "ray::RuntimeEnvAgent", "default_worker.py")
"""Ray's agents and starting workers try for a minute to reach the dead cluster, without CPU time: they may end last."""

MAX_AGENT_SECONDS = 120.0


def descendants() -> list[list[str]]:
    """Return the command lines of the running processes below this one; reap those that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    children: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = file.read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                children.setdefault(int(parent), []).append(int(file.parent.name))
    found: list[list[str]] = []
    pending = [os.getpid()]
    while pending:
        for pid in children.get(pending.pop(), []):
            pending.append(pid)
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0"))
    return found


def wait_for_ends(*, agents: bool = False) -> float:
    """Wait until all processes below this one have ended, perhaps Ray's late ones too; return the seconds."""
    start = time.monotonic()
    while running := [
        words for words in descendants() if agents or not any(late in " ".join(words[:2]) for late in LATE)
    ]:
        seconds = time.monotonic() - start
        compilers = [words for words in running if "-cc1" in words]
        if seconds > (MAX_AGENT_SECONDS if agents else MAX_SECONDS) or (compilers and seconds > MAX_COMPILER_SECONDS):
            sys.exit(f"{seconds:.0f} s after a kill these run: {[words[:3] for words in compilers or running]}")
        time.sleep(0.05)
    return time.monotonic() - start


def outcome(output: Path) -> tuple[dict[tuple[str, str], Any], str]:
    """Return each episode by policy and module, and the printed table; all times are zero."""
    lines = [json.loads(line) for line in (output / "episodes.jsonl").read_text().splitlines()]
    lines = [{**line, "seconds": 0.0, "policy_seconds": 0.0} for line in lines]
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(output, copy, dirs_exist_ok=True)
        Path(copy, "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        report = subprocess.run([str(PROGRAM), "report", copy], capture_output=True, text=True, check=True)
    return {(line["policy"], line["module"]): line for line in lines}, report.stdout


def killed_run(command: list[str], log: Path, kills: int, seconds: float, chance: random.Random) -> int:
    """Start a command again and again, kill it at most so often, and return the number of kills once it has ended."""
    killed = 0
    while True:
        with log.open("a") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.05, 1.05) * seconds if killed < kills else None)
        if process.poll() is not None:
            if process.returncode:
                sys.exit(f"exit status {process.returncode}\n{log.read_text()}")
            return killed
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed += 1
        print(f"killed; all processes ended within {wait_for_ends():.2f} s", flush=True)


def main() -> int:
    """Kill and resume; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="builtin")
    parser.add_argument("--environment", default="mlgo/Inline-v0")
    parser.add_argument("--policies", default="default,never,always,random,clang:-mllvm,-inline-threshold=5")
    parser.add_argument("--limit", type=int, help="number of modules (default: all)")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--ray", action="store_true", help="on a local Ray cluster")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    command = [str(PROGRAM), "evaluate", options.environment, "--corpus", options.corpus, "--policy", options.policies]
    command += ["--jobs", str(options.jobs), *(["--ray", "local"] if options.ray else [])]
    command += ["--limit", str(options.limit)] if options.limit else []
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        sys.exit("prctl(PR_SET_CHILD_SUBREAPER) failed; use Linux")
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="mlgo-gym-kills-") as name:
        folder = Path(name)
        expected, killed, runs, seconds = None, 0, 0, 0.0
        while killed < options.kills:
            output, start = folder / str(runs), time.monotonic()
            remaining = options.kills - killed if runs else 0
            number = killed_run([*command, "--output", str(output)], folder / "log", remaining, seconds, chance)
            if not number:
                seconds = time.monotonic() - start  # the first run, or a shorter one: the cache is filled
            found = outcome(output)
            same = expected is None or found == expected
            killed, runs, expected = killed + number, runs + 1, expected or found
            print(
                f"{number} kills, {len(found[0])} episodes: {'the same table' if same else 'ANOTHER TABLE'}", flush=True
            )
            if not same:
                return 1
    wait_for_ends(agents=True)
    print(f"{killed} kills; all processes ended")
    return 0


if __name__ == "__main__":
    sys.exit(main())
