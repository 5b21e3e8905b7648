"""Kills and resumes `mlgo-gym evaluate`; prints whether the table is that of an uninterrupted run.

    python benchmarks/kill_and_resume.py --kills 20
    python benchmarks/kill_and_resume.py --kills 20 --jobs 2 --json docs/results/kill_and_resume.json
    python benchmarks/kill_and_resume.py --kills 20 --limit 6 --jobs 2 --ray

An evaluation gets SIGKILL at a random moment and is started again with the same output, until it ends by itself. The
next one starts with an empty output, until `--kills` is reached. After each kill the program waits for all processes
that the evaluation had started: workers, compilers, a cluster. It adopts those whose parent has died. The exit status
is 1 if a table or an episode differs, or a process runs on for long. `--json` adds the outcome to a file with one entry
per command.
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
MAX_SECONDS = 30.0
"""Seconds after a kill in which the evaluation's processes must end."""

MAX_COMPILER_SECONDS = 10.0
"""Seconds after a kill in which its compilers must end."""

AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
"""Ray's agents try for a minute to reach the dead cluster. They use no CPU time; the program waits for them last."""

STARTING_WORKER = "default_worker.py"
"""Program of a worker of Ray that has not reached the cluster yet; it tries for as long as an agent."""

MAX_AGENT_SECONDS = 120.0


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent dies."""
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        sys.exit("prctl(PR_SET_CHILD_SUBREAPER) failed; use Linux")


def descendants() -> list[int]:
    """Return the running processes below this one; reap those that have ended."""
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
    pending = [os.getpid()]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def wait_for_ends() -> float:
    """Wait until all processes below this one but Ray's agents and starting workers have ended; return the seconds."""
    start = time.monotonic()
    while running := [pid for pid in descendants() if not tries_to_reach_cluster(words_of(pid))]:
        seconds = time.monotonic() - start
        compilers = [pid for pid in running if "-cc1" in words_of(pid)]
        if seconds > MAX_SECONDS or (compilers and seconds > MAX_COMPILER_SECONDS):
            sys.exit(f"{seconds:.0f} s after a kill these run: {[words_of(pid)[:3] for pid in compilers or running]}")
        time.sleep(0.05)
    return time.monotonic() - start


def tries_to_reach_cluster(words: Sequence[str]) -> bool:
    """Return whether a command line is that of Ray's agent, or of its worker that has not reached the cluster yet."""
    return words[0].strip() in AGENTS or any(word.endswith(STARTING_WORKER) for word in words[:2])


def wait_for_agents() -> float:
    """Wait until all processes below this one have ended; return the seconds."""
    start = time.monotonic()
    while running := descendants():
        if time.monotonic() - start > MAX_AGENT_SECONDS:
            sys.exit(f"at the end these run: {[words_of(pid)[:3] for pid in running]}")
        time.sleep(0.1)
    return time.monotonic() - start


def words_of(pid: int) -> list[str]:
    """Return the command line of a process; one empty word if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return [""]


def episodes(output: Path) -> dict[tuple[str, str], Any]:
    """Return the result of each episode by policy and module, without its times."""
    found = {}
    for line in (output / "episodes.jsonl").read_text().splitlines():
        value = json.loads(line)
        del value["seconds"], value["policy_seconds"]
        found[value["policy"], value["module"]] = value
    return found


def table(output: Path) -> str:
    """Return the table of a folder of results, with all times set to zero."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(output, copy, dirs_exist_ok=True)
        lines = [json.loads(line) for line in Path(copy, "episodes.jsonl").read_text().splitlines()]
        text = "".join(json.dumps({**line, "seconds": 0.0, "policy_seconds": 0.0}) + "\n" for line in lines)
        Path(copy, "episodes.jsonl").write_text(text)
        report = subprocess.run([str(PROGRAM), "report", copy], capture_output=True, text=True, check=True)
        return report.stdout


def main(words: Sequence[str] | None = None) -> int:
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
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(words)
    command = [str(PROGRAM), "evaluate", options.environment, "--corpus", options.corpus, "--policy", options.policies]
    command += ["--jobs", str(options.jobs), *(["--ray"] if options.ray else [])]
    command += ["--limit", str(options.limit)] if options.limit else []
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="mlgo-gym-kills-") as folder:
        found = run(command, Path(folder), options.kills, random.Random(options.seed))
    if options.json:
        outcomes = json.loads(options.json.read_text()) if options.json.exists() else {}
        outcomes[" ".join([*command[1:], "seed", str(options.seed)])] = found
        options.json.write_text(json.dumps(outcomes, indent=1) + "\n")
    return int(not found["same"])


def run(command: list[str], folder: Path, kills: int, chance: random.Random) -> dict[str, Any]:
    """Run a command once without kills, then with kills; return the outcome."""
    uninterrupted = folder / "uninterrupted"
    start = time.monotonic()
    done = subprocess.run([*command, "--output", str(uninterrupted)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the run without kills: exit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    seconds = time.monotonic() - start
    expected, expected_table = episodes(uninterrupted), table(uninterrupted)
    print(f"without kills: {len(expected)} episodes in {seconds:.1f} s", flush=True)
    killed = runs = 0
    same = True
    longest_end = 0.0
    moments: list[list[int]] = []
    log = (folder / "log").open("w+")
    while killed < kills and same:
        runs += 1
        output = folder / f"killed-{runs}"
        at: list[int] = []
        while True:
            start = time.monotonic()
            process = subprocess.Popen(
                [*command, "--output", str(output)], stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.05, 1.05) * seconds if killed < kills else None)
            if process.poll() is not None:
                break
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += 1
            longest_end = max(longest_end, wait_for_ends())
            written = output / "episodes.jsonl"
            at.append(written.read_bytes().count(b"\n") if written.exists() else 0)
        if not at:
            seconds = time.monotonic() - start  # shorter than the first run: the cache is filled
        same = process.returncode == 0 and episodes(output) == expected and table(output) == expected_table
        moments.append(at)
        print(f"{len(at)} kills after {at} episodes: {'the same table' if same else 'ANOTHER TABLE'}", flush=True)
        if not same:
            log.seek(0)
            print(f"exit status {process.returncode}\n{log.read()}")
        log.truncate(0)
        log.seek(0)
    agents = wait_for_agents()
    ends = f"within {longest_end:.2f} s" + (f", Ray's agents {agents:.0f} s after the last run" if agents > 1 else "")
    print(f"{killed} kills; all processes ended {ends}")
    return {
        "same": same,
        "episodes": len(expected),
        "undisturbed_seconds": seconds,
        "kills": killed,
        "episodes_at_each_kill": moments,
        "longest_end_seconds": longest_end,
        "agents_left_for_seconds": agents,
    }


if __name__ == "__main__":
    sys.exit(main())
