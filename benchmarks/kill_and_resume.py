"""`mlgo-gym evaluate`, killed again and again and resumed: does it end with the table of an undisturbed run?

    python benchmarks/kill_and_resume.py --kills 20
    python benchmarks/kill_and_resume.py --kills 20 --jobs 2
    python benchmarks/kill_and_resume.py --kills 20 --ray --jobs 2

The program is started, gets SIGKILL at a moment drawn at random between its start and its end (and a little
after), and is started again with the same output, until it ends by itself; then the next one begins, with an
empty output, until so many were killed. After each kill it is waited for whatever it had started to end: workers,
compilers, and a cluster. The exit status is 1 where a table or an episode differs, or something goes on for long.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROGRAM = Path(sys.executable).with_name("mlgo-gym")
MARK = "MLGO_KILL_AND_RESUME"
LONGEST_END = 120.0
"""The seconds that what a killed program had started may go on: Ray's own agents look for their parent now and then."""

LONGEST_COMPILER = 10.0
"""And those that a compiler may."""


def marked(mark: str) -> list[int]:
    """Return the living processes that have inherited a mark."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            state = environment.with_name("stat").read_text().rpartition(")")[2].split()[0]
            if f"{MARK}={mark}".encode() in environment.read_bytes() and state not in "ZX":
                found.append(int(environment.parent.name))
    return found


def words_of(pid: int) -> list[str]:
    """Return the command line of a process; none where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def episodes(output: Path) -> dict[tuple[str, str], Any]:
    """Return what each episode came to, but for the time it took."""
    found = {}
    for line in (output / "episodes.jsonl").read_text().splitlines():
        value = json.loads(line)
        del value["seconds"]
        found[value["policy"], value["module"]] = value
    return found


def table(output: Path) -> str:
    """Return the table of the results in a folder, as if all had taken no time: that is never the same."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(output, copy, dirs_exist_ok=True)
        lines = [json.loads(line) for line in Path(copy, "episodes.jsonl").read_text().splitlines()]
        text = "".join(json.dumps({**line, "seconds": 0.0}) + "\n" for line in lines)
        Path(copy, "episodes.jsonl").write_text(text)
        answer = subprocess.run([str(PROGRAM), "report", copy], capture_output=True, text=True, check=True)
        return answer.stdout


def main(words: Sequence[str] | None = None) -> int:
    """Kill and resume; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="builtin")
    parser.add_argument("--environment", default="mlgo/Inline-v0")
    parser.add_argument("--policies", default="default,never,always,random,clang:-mllvm,-inline-threshold=5")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--ray", action="store_true", help="on a local cluster of Ray")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    command = [str(PROGRAM), "evaluate", given.environment, "--corpus", given.corpus, "--policy", given.policies]
    command += ["--jobs", str(given.jobs), *(["--ray"] if given.ray else [])]
    command += ["--limit", str(given.limit)] if given.limit else []
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="mlgo-gym-kills-") as folder:
        return _run(command, Path(folder), given.kills, chance)


def _run(command: list[str], folder: Path, kills: int, chance: random.Random) -> int:
    undisturbed = folder / "undisturbed"
    started = time.monotonic()
    environment = dict(os.environ)
    subprocess.run([*command, "--output", str(undisturbed)], check=True, capture_output=True, env=environment)
    whole = time.monotonic() - started
    wanted, wanted_table = episodes(undisturbed), table(undisturbed)
    print(f"undisturbed: {len(wanted)} episodes in {whole:.1f} s")
    status = done = tries = 0
    latest_end = 0.0
    while done < kills:
        tries += 1
        output = folder / f"disturbed-{tries}"
        at: list[int] = []
        begun = time.monotonic()
        while True:
            mark = f"{os.getpid()}-{tries}-{len(at)}"
            process = subprocess.Popen(
                [*command, "--output", str(output)],
                env={**environment, MARK: mark},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            if done < kills:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(chance.uniform(0.05, 1.05) * whole)
            else:
                process.wait()
            if process.poll() is not None:
                break
            process.send_signal(signal.SIGKILL)
            process.wait()
            done += 1
            killed = time.monotonic()
            while left := marked(mark):
                after = time.monotonic() - killed
                compilers = [pid for pid in left if "-cc1" in words_of(pid)]
                if after > LONGEST_END or (compilers and after > LONGEST_COMPILER):
                    print(f"after kill {done} these go on: {[words_of(pid)[:3] for pid in compilers or left]}")
                    return 1
                time.sleep(0.01)
            latest_end = max(latest_end, time.monotonic() - killed)
            there = output / "episodes.jsonl"
            at.append(there.read_bytes().count(b"\n") if there.exists() else 0)
        if not at:
            whole = time.monotonic() - begun  # with what the cache holds now it takes less
        same = process.returncode == 0 and episodes(output) == wanted and table(output) == wanted_table
        status |= not same
        print(f"{len(at)} kills after {at} episodes: {'the same table' if same else 'ANOTHER TABLE'}", flush=True)
    print(f"{done} kills; all that was started had ended after {latest_end:.2f} s at most")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
