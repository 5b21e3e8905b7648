"""What many episodes with forks leave behind: processes, descriptors, scratch folders, and memory of the host.

    python benchmarks/many_episodes.py --json runs/many_episodes.json

Random episodes of each kind of environment; each is forked at one of its first decisions, and both are played on, turn
by turn; some forks are closed in the middle of their compile. Memory is that of this process, at each tenth of the
episodes. The exit status is 1 where anything is left.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv, RegAllocPriorityEnv
from mlgo_gym.session.scratch import scratch_parent

KINDS: dict[str, tuple[Callable[..., CompilerEnv], dict[str, Any]]] = {
    "inlining": (InlineEnv, {"max_decisions": 20}),
    "eviction, one function": (RegAllocEvictEnv, {"scope": "function", "max_decisions": 20}),
    "priority, one function": (RegAllocPriorityEnv, {"scope": "function", "max_decisions": 20}),
    "eviction, warm resets": (RegAllocEvictEnv, {"preoptimize": False, "max_decisions": 20}),
}

GUESSES, CLOSES = 0.2, 0.03
"""How often an action is random, and how often a fork is closed before its end."""


def held() -> dict[str, int]:
    """Return how many children, descriptors and scratch folders this process has."""
    gc.collect()
    return {
        "processes": sum(len(Path(task, "children").read_text().split()) for task in Path("/proc/self/task").iterdir()),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "scratch_folders": len(list(Path(scratch_parent()).glob(f"mlgo-gym-{os.getpid()}-*/*"))),
    }


def resident_kib() -> int:
    """Return this process's resident memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def choose(env: CompilerEnv, info: dict[str, Any], chance: np.random.Generator) -> Any:
    """Return clang's own choice, or now and then a random legal one."""
    if chance.random() >= GUESSES:
        return info["default_action"]
    if "action_mask" in info:
        return int(chance.choice(np.flatnonzero(info["action_mask"])))
    return env.action_space.sample()


def play(env: CompilerEnv, number: int, chance: np.random.Generator) -> tuple[int, int]:
    """EpisodeRecord an episode with a fork; return how many forks were made, and how many of them were closed early."""
    _, info = env.reset(seed=number)
    fork_at = int(chance.integers(4))
    going = [(env, info)]
    forks = closed = 0
    while going:
        each, info = going.pop(0)
        if each is env and not forks and info["decision"] == fork_at:
            forks += 1
            going.append((env.fork(), info))
        *_, terminated, truncated, info = each.step(choose(each, info, chance))
        assert not truncated, info
        early = each is not env and chance.random() < CLOSES
        closed += early and not terminated
        if not terminated and not early:
            going.append((each, info))
        elif each is not env:
            # `close()` would also end the clangs that wait for further episodes of both.
            each._end_episode()
    return forks, closed


def measure(label: str, corpus: str, episodes: int) -> dict[str, Any]:
    """EpisodeRecord the episodes of one kind of environment."""
    kind, options = KINDS[label]
    before = held()
    env = kind(corpus=corpus, **options)
    chance = np.random.default_rng(0)
    forks = closed = 0
    memory = []
    start = time.perf_counter()
    for number in range(episodes):
        made, ended = play(env, number, chance)
        forks, closed = forks + made, closed + ended
        if (number + 1) % max(episodes // 10, 1) == 0:
            memory.append(resident_kib())
    seconds = time.perf_counter() - start
    env.close()
    left = {name: count - before[name] for name, count in held().items()}
    return {
        "environment": label,
        "episodes": episodes,
        "forks": forks,
        "closed_early": closed,
        "left": left,
        "resident_kib": memory,
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="zstd")
    parser.add_argument("--episodes", type=int, default=500, help="of each kind of environment")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    print(f"{'':24} {'episodes':>8} {'forks':>6} {'processes':>9} {'descriptors':>11} {'folders':>7}  memory, MiB")
    rows = []
    for label in KINDS:
        row = measure(label, arguments.corpus, arguments.episodes)
        rows.append(row)
        left = row["left"]
        print(
            f"{label:24} {row['episodes']:8} {row['forks']:6} {left['processes']:9} {left['descriptors']:11} "
            f"{left['scratch_folders']:7}  {' '.join(f'{kib / 1024:.0f}' for kib in row['resident_kib'])}",
            flush=True,
        )
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps({"corpus": arguments.corpus, "rows": rows}, indent=1) + "\n")
    sys.exit(any(any(row["left"].values()) for row in rows))


if __name__ == "__main__":
    main()
