"""`mlgo-gym evaluate`, killed again and again and resumed: does it end with the table of an undisturbed run?

    python benchmarks/kill_and_resume.py --kills 20
    python benchmarks/kill_and_resume.py --kills 20 --jobs 2 --json docs/results/kill_and_resume.json
    python benchmarks/kill_and_resume.py --kills 20 --limit 6 --jobs 2 --ray

The program is started, gets SIGKILL at a moment drawn at random between its start and its end (and a little
after), and is started again with the same output, until it ends by itself; then the next one begins, with an
empty output, until so many were killed. After each kill it is waited for whatever it had started to end: workers,
compilers, and a cluster. Nothing escapes: this process adopts what has lost its parent. The exit status is 1 where a
table or an episode differs, or something goes on for long; what the program wrote is shown where it fails. With
`--json` the outcome goes into a file that holds one for each command.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PROGRAM = Path(sys.executable).with_name("mlgo-gym")
PR_SET_CHILD_SUBREAPER = 36
LONGEST_END = 30.0
"""The seconds that what a killed program had started may go on."""

LONGEST_COMPILER = 10.0
"""And those that a compiler may."""

AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Ray's own agents try for a minute to tell the dead cluster that their node has died, whatever is set; they take no
processor time, and are waited for when all is over."""

LONGEST_AGENT = 120.0


def adopt_orphans() -> None:
    """Become the parent of processes whose own has died, so that nothing that was started gets out of sight."""
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        sys.exit("this needs Linux: prctl(PR_SET_CHILD_SUBREAPER) failed")


def descendants() -> list[int]:
    """Return the living processes below this one, after reaping those that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    children: dict[int, list[int]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = file.read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                children.setdefault(int(parent), []).append(int(file.parent.name))
    found: list[int] = []
    ahead = [os.getpid()]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def wait_for_ends() -> float:
    """Wait until all processes below this one have ended, but for Ray's agents; return how long that took."""
    killed = time.monotonic()
    while left := [pid for pid in descendants() if words_of(pid)[0].strip() not in AGENTS]:
        after = time.monotonic() - killed
        compilers = [pid for pid in left if "-cc1" in words_of(pid)]
        if after > LONGEST_END or (compilers and after > LONGEST_COMPILER):
            sys.exit(f"after a kill these go on: {[words_of(pid)[:3] for pid in compilers or left]}")
        time.sleep(0.05)
    return time.monotonic() - killed


def wait_for_agents() -> float:
    """Wait until nothing at all is left; return how long that took."""
    begun = time.monotonic()
    while left := descendants():
        if time.monotonic() - begun > LONGEST_AGENT:
            sys.exit(f"at the end these go on: {[words_of(pid)[:3] for pid in left]}")
        time.sleep(0.1)
    return time.monotonic() - begun


def words_of(pid: int) -> list[str]:
    """Return the command line of a process; none where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return [""]


def episodes(output: Path) -> dict[tuple[str, str], Any]:
    """Return what each episode came to, but for the time it took."""
    found = {}
    for line in (output / "episodes.jsonl").read_text().splitlines():
        value = json.loads(line)
        del value["seconds"], value["policy_seconds"]
        found[value["policy"], value["module"]] = value
    return found


def table(output: Path) -> str:
    """Return the table of the results in a folder, as if all had taken no time: that is never the same."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(output, copy, dirs_exist_ok=True)
        lines = [json.loads(line) for line in Path(copy, "episodes.jsonl").read_text().splitlines()]
        text = "".join(json.dumps({**line, "seconds": 0.0, "policy_seconds": 0.0}) + "\n" for line in lines)
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
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(words)
    command = [str(PROGRAM), "evaluate", given.environment, "--corpus", given.corpus, "--policy", given.policies]
    command += ["--jobs", str(given.jobs), *(["--ray"] if given.ray else [])]
    command += ["--limit", str(given.limit)] if given.limit else []
    chance = random.Random(given.seed)
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="mlgo-gym-kills-") as folder:
        found = _run(command, Path(folder), given.kills, chance)
    if given.json:
        kept = json.loads(given.json.read_text()) if given.json.exists() else {}
        kept[" ".join([*command[1:], "seed", str(given.seed)])] = found
        given.json.write_text(json.dumps(kept, indent=1) + "\n")
    return int(not found["same"])


def _run(command: list[str], folder: Path, kills: int, chance: random.Random) -> dict[str, Any]:
    undisturbed = folder / "undisturbed"
    started = time.monotonic()
    answer = subprocess.run([*command, "--output", str(undisturbed)], capture_output=True, text=True, check=False)
    if answer.returncode:
        sys.exit(f"undisturbed: exit status {answer.returncode}\n{answer.stdout}\n{answer.stderr}")
    whole = time.monotonic() - started
    wanted, wanted_table = episodes(undisturbed), table(undisturbed)
    print(f"undisturbed: {len(wanted)} episodes in {whole:.1f} s", flush=True)
    done = tries = 0
    same = True
    latest_end = 0.0
    moments: list[list[int]] = []
    written = (folder / "written").open("w+")
    while done < kills and same:
        tries += 1
        output = folder / f"disturbed-{tries}"
        at: list[int] = []
        begun = time.monotonic()
        while True:
            process = subprocess.Popen(
                [*command, "--output", str(output)],
                stdout=written,
                stderr=subprocess.STDOUT,
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
            latest_end = max(latest_end, wait_for_ends())
            there = output / "episodes.jsonl"
            at.append(there.read_bytes().count(b"\n") if there.exists() else 0)
        if not at:
            whole = time.monotonic() - begun  # with what the cache holds now it takes less
        same = process.returncode == 0 and episodes(output) == wanted and table(output) == wanted_table
        moments.append(at)
        print(f"{len(at)} kills after {at} episodes: {'the same table' if same else 'ANOTHER TABLE'}", flush=True)
        if not same:
            written.seek(0)
            print(f"exit status {process.returncode}\n{written.read()}")
        written.truncate(0)
        written.seek(0)
    agents = wait_for_agents()
    ends = f"{latest_end:.2f} s at most" + (f", Ray's agents {agents:.0f} s after the last run" if agents > 1 else "")
    print(f"{done} kills; all that was started had ended after {ends}")
    return {
        "same": same,
        "episodes": len(wanted),
        "undisturbed_seconds": whole,
        "kills": done,
        "episodes_at_each_kill": moments,
        "longest_end_seconds": latest_end,
        "agents_left_for_seconds": agents,
    }


if __name__ == "__main__":
    sys.exit(main())
