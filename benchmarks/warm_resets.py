"""Episodes that start from a copy of a waiting clang, against episodes that start a fresh one, in one run.

    python benchmarks/warm_resets.py --corpus zstd --json runs/warm_resets.json

The default policy plays each module again and again, warm and cold in turn; a plain compile of the same (optimised)
bitcode is timed beside them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

from mlgo_gym.env import CompilerEnv
from mlgo_gym.session.session import Session

CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("mlgo/RegAllocEvict-v0", {"preoptimize": False}),
    ("mlgo/RegAllocEvict-v0", {}),
    ("mlgo/RegAllocPriority-v0", {"preoptimize": False}),
    ("mlgo/RegAllocPriority-v0", {}),
    ("mlgo/Inline-v0", {}),
)
"""The environments and their arguments; register allocation optimises modules once by default."""


def play(env: CompilerEnv, module: str) -> float:
    """Return the seconds of an episode of clang's own choices."""
    start = time.perf_counter()
    _, info = env.reset(options={"module": module})
    over = False
    while not over:
        _, _, terminated, truncated, info = env.step(info["default_action"])
        over = terminated or truncated
    assert not truncated
    return time.perf_counter() - start


def plain(env: CompilerEnv, module: str) -> float:
    """Return the seconds of the same compile with nobody asked."""
    start = time.perf_counter()
    with Session(env.compilation(env.corpus.module(module)).command) as session:
        session.finish(300.0)
    return time.perf_counter() - start


def measure(name: str, arguments: dict[str, Any], corpus: str, modules: int, repetitions: int) -> dict[str, Any]:
    """Compare on the largest modules of a corpus."""
    warm, cold = (
        gym.make(name, corpus=corpus, warm_resets=value, disable_env_checker=True, **arguments).unwrapped
        for value in (True, False)
    )
    assert isinstance(warm, CompilerEnv)
    assert isinstance(cold, CompilerEnv)
    largest = [module for module in warm.corpus.names if warm.decisions(warm.corpus.module(module))]
    largest = sorted(largest, key=lambda module: -warm.corpus.size(module))[:modules]
    times: dict[str, list[float]] = {"warm": [], "cold": [], "plain": []}
    for module in largest:
        play(warm, module)
        play(cold, module)
        for _ in range(repetitions):
            times["warm"].append(play(warm, module))
            times["cold"].append(play(cold, module))
            times["plain"].append(plain(cold, module))
    warm.close()
    cold.close()
    pairs = zip(times["warm"], times["cold"], times["plain"], strict=True)
    ratios = [(c / w, p / w) for w, c, p in pairs]
    return {
        "environment": name,
        "arguments": arguments,
        "modules": largest,
        "seconds": times,
        "faster_than_cold": statistics.median(ratio for ratio, _ in ratios),
        "faster_than_plain": statistics.median(ratio for _, ratio in ratios),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="zstd")
    parser.add_argument("--modules", type=int, default=8)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    print(f"{'':44} {'warm against cold':>18} {'against a plain compile':>24}")
    rows = []
    for name, extra in CASES:
        row = measure(name, extra, arguments.corpus, arguments.modules, arguments.repetitions)
        rows.append(row)
        label = f"{name} {' '.join(f'{key}={value}' for key, value in extra.items())}"
        print(f"{label:44} {row['faster_than_cold']:16.2f} x {row['faster_than_plain']:22.2f} x")
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
