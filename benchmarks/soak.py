"""Hours of episodes of every kind with faults; prints whether memory, processes or files grow or remain.

    python -m benchmarks.soak --minutes 60 --output runs/soak.json

Runs every registered environment in the scenarios of `soak_scenarios.py`: long-lived and fresh, in vectors (in lock
step, and with `send` and `recv`), with forks, fork resets and episodes of one function. The faults between them: a
clang killed during a request, damaged bitcode, actions that are illegal or out of range, episodes closed early.

Samples memory, processes, descriptors, threads, scratch space and the cache. The slope of each over the episodes (Theil
and Sen's, with an interval of 99 %, without the first 15 % of the samples) is compared with `LIMITS`. At the end
everything is closed. The exit status is 0 if everything is flat and nothing remains, 1 if something grows or remains,
and 2 if an interval contains its limit: run longer.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from scipy.stats import theilslopes

from benchmarks.measuring import ROOT, Table, command_line, write_json
from benchmarks.soak_scenarios import CUT_OFF, DAMAGED, SCENARIOS, Environments, children_of
from mlgo_clang.files import scratch_parent
from mlgo_gym.corpus.builtin import builtin_corpus
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.make_env import compiler_environments

SMALL = ("calls", "families", "functions", "many_calls", "mixed", "pressure", "spills")
BUILTIN = "cpp/ecs"
FLAGS = ("-Oz", "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c", "--target=x86_64-unknown-linux-musl")

WARM_UP = 0.15
"""Share of the samples that is excluded: caches and pools fill in that time."""

LIMITS = {
    "host_memory": 8.0,
    "children_memory": 32.0,
    "processes": 2.0,
    "descriptors": 2.0,
    "threads": 1.0,
    "scratch": 1.0,
    "cache": 4.0,
}
"""Allowed growth in 10,000 episodes; memory and space in MiB. One descriptor left by each thousandth episode is 10."""

Sample = dict[str, float]
"""Seconds, number of ended episodes, and the value of each resource of `LIMITS`."""


def make_corpus(folder: Path) -> None:
    """Write small modules, one of the builtin corpus, and two damaged ones to a folder."""
    toolchain = find_toolchain()
    for name in SMALL:
        source = ROOT / "tests" / "programs" / f"{name}.c"
        result = toolchain.run([*FLAGS, str(source), "-o", str(folder / f"{name}.bc")])
        if result.returncode != 0:
            sys.exit(result.stderr)
    shutil.copy(builtin_corpus(toolchain).module(BUILTIN).bitcode, folder / f"{BUILTIN.replace('/', '-')}.bc")
    bitcode = (folder / "mixed.bc").read_bytes()
    middle = len(bitcode) // 8 * 4
    (folder / f"{CUT_OFF}.bc").write_bytes(bitcode[:middle])
    (folder / f"{DAMAGED}.bc").write_bytes(bitcode[:middle] + b"\xff" * 32 + bitcode[middle + 32 :])


def take_sample(start: float, episodes: int, cache: Path) -> Sample:
    """Collect garbage, and return a sample; the memory of children is proportional (`Pss`)."""
    gc.collect()
    children = descendants(os.getpid())
    scratch = Path(scratch_parent()).glob(f"mlgo-gym-{os.getpid()}-*")
    return {
        "seconds": round(time.monotonic() - start, 3),
        "episodes": episodes,
        "host_memory": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20,
        "children_memory": sum(map(proportional_kib, children)) / 1024,
        "processes": len(children),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "scratch": sum(map(bytes_below, scratch)) / 2**20,
        "cache": bytes_below(cache) / 2**20,
    }


def descendants(pid: int) -> list[int]:
    """Return all processes below one, zombies included."""
    return [process for child in children_of(pid) for process in (child, *descendants(child))]


def proportional_kib(pid: int) -> int:
    """Return the memory of a process, in which a shared page counts once; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def bytes_below(folder: Path) -> int:
    """Return the size of the files in a folder; files that disappear meanwhile do not count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(parent, name).lstat().st_size
            except OSError:
                continue
    return total


def slopes(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Return and print the growth of each resource in 10,000 episodes after the warm-up, with a verdict."""
    steady = samples[int(len(samples) * WARM_UP) :]
    # The number of pairs is quadratic; a thousand samples are enough.
    steady = steady[:: max(1, len(steady) // 1000)]
    episodes = np.array([sample["episodes"] for sample in steady]) / 10_000
    columns = {"slope": ">+9.3f", "low": ">+9.3f", "high": ">+9.3f", "limit": ">6.1f", "verdict": "<10"}
    table = Table({"per 10,000 episodes": "<20", "first": ">8.1f", "last": ">8.1f", **columns})
    rows = []
    for name, limit in LIMITS.items():
        values = np.array([sample[name] for sample in steady], float)
        found = theilslopes(values, episodes, 0.99)
        slope, low, high = float(found.slope), float(found.low_slope), float(found.high_slope)
        verdict = "flat" if high <= limit else "grows" if low > limit else "undecided"
        rows.append({"name": name, "slope": slope, "low": low, "high": high, "limit": limit, "verdict": verdict})
        table.row(name, values[0], values[-1], slope, low, high, limit, verdict)
    return rows


def soak(minutes: float, seed: int, corpus: str, cache: Path) -> tuple[dict[str, Any], int]:
    """Run scenarios until the time is over; return the results and the exit status."""
    chance = np.random.default_rng(seed)
    # Load and measure once what every later episode reuses.
    for env_id in compiler_environments():
        gym.make(env_id, corpus=corpus).close()
    start = printed = time.monotonic()
    before = take_sample(start, 0, cache)
    tally, by_scenario = Counter[str](), Counter[str]()
    environments = [
        Environments(env_id, corpus, np.random.default_rng(chance.integers(1 << 63)), tally)
        for env_id in compiler_environments()
    ]
    items = [(name, envs) for envs in environments for name in SCENARIOS if name != "functions" or envs.allocates]
    samples: list[Sample] = []
    interval, sampled, now = max(1.0, minutes * 60 / 1200), 0.0, start
    while now - start < minutes * 60:
        for index in chance.permutation(len(items)):
            name, envs = items[index]
            episodes = SCENARIOS[name](envs)
            by_scenario[f"{envs.env_id}: {name}"] += episodes
            tally["episodes"] += episodes
            now = time.monotonic()
            if now - sampled > interval:
                samples.append(take_sample(start, tally["episodes"], cache))
                sampled = now
            if now - printed > 60:
                printed = now
                print(f"{(now - start) / 60:5.1f} min", samples[-1], flush=True)
            if now - start >= minutes * 60:
                break
    for envs in environments:
        envs.close()
    del envs, environments, items
    found = slopes(samples)
    after = take_sample(start, tally["episodes"], cache)
    remaining = {name: int(after[name] - before[name]) for name in ("processes", "descriptors", "threads")}
    remaining["scratch folders"] = sum(1 for _ in Path(scratch_parent()).glob(f"mlgo-gym-{os.getpid()}-*/*"))
    for title, numbers in (("events", dict(sorted(tally.items()))), ("remaining", remaining)):
        print(f"{title}:", ", ".join(f"{count} {name}" for name, count in numbers.items()))
    verdicts = {row["verdict"] for row in found}
    status = 1 if any(remaining.values()) or "grows" in verdicts else 2 if "undecided" in verdicts else 0
    settings: dict[str, Any] = {"minutes": minutes, "seed": seed}
    counts = {"tally": dict(tally), "episodes_by_scenario": dict(by_scenario), "remaining": remaining}
    return {**settings, **counts, "slopes": found, "samples": samples}, status


def main() -> None:
    """Run the soak in a temporary folder with an empty cache."""
    parser = command_line(__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="duration (default: 60)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/soak.json"), help="JSON file of the results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mlgo-soak-") as name:
        work = Path(name)
        os.environ["MLGO_CACHE"] = str(work / "cache")
        corpus = work / "corpus"
        corpus.mkdir()
        make_corpus(corpus)
        found, status = soak(options.minutes, options.seed, str(corpus), work / "cache")
    write_json(options.output, {"clang": find_toolchain().version_text, **found})
    sys.exit(status)


if __name__ == "__main__":
    main()
