"""How much faster an episode of register allocation is when its module is optimised once.

    python benchmarks/preoptimized_episodes.py --corpus zstd --largest 8 --rounds 5

Clang's own choices answer every question. Episodes from optimised bitcode and episodes that compile in full take turns
in one run, so that a busy machine slows both; the objects of plain compiles of both kinds are compared byte for byte.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from mlgo_gym.corpus.module import Module
from mlgo_gym.envs import RegAllocEvictEnv
from mlgo_gym.session import Session

TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The episodes of one module: medians in seconds."""

    module: str
    bitcode_bytes: int
    decisions: int
    full_seconds: float
    once_seconds: float
    identical: bool

    @property
    def speedup(self) -> float:
        """How many times faster an episode is."""
        return self.full_seconds / self.once_seconds


def episode(env: RegAllocEvictEnv, module: str) -> tuple[float, int]:
    """Play one episode; return its duration in seconds and its number of decisions."""
    start = time.perf_counter()
    _, info = env.reset(options={"module": module})
    while "default_action" in info:
        *_, info = env.step(info["default_action"])
    return time.perf_counter() - start, info["decisions"]


def plain_object(env: RegAllocEvictEnv, module: Module) -> bytes:
    """Return the object of a plain compile."""
    with Session(env.compilation(module).command) as session:
        return session.finish(TIMEOUT).object_bytes


def compare(once: RegAllocEvictEnv, full: RegAllocEvictEnv, module: Module, rounds: int) -> Comparison:
    """Compare the two kinds of episodes on one module; the first of each, which fills caches, does not count."""
    durations: dict[RegAllocEvictEnv, list[float]] = {once: [], full: []}
    decisions = {one: episode(one, module.name)[1] for one in durations}
    for _ in range(rounds):
        for one, seconds in durations.items():
            seconds.append(episode(one, module.name)[0])
    return Comparison(
        module.name,
        module.bitcode.stat().st_size,
        decisions[once],
        statistics.median(durations[full]),
        statistics.median(durations[once]),
        decisions[once] == decisions[full] and plain_object(once, module) == plain_object(full, module),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="zstd")
    parser.add_argument("--clang", default="bundled")
    parser.add_argument("--largest", type=int, default=8, help="how many modules, the largest first")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    once, full = (
        RegAllocEvictEnv(corpus=arguments.corpus, clang=arguments.clang, preoptimize=way, timeout=TIMEOUT)
        for way in (True, False)
    )
    rows = []
    print(f"{'module':32} {'bitcode':>9} {'decisions':>9} {'in full':>9} {'optimised once':>14} {'faster':>7}  objects")
    for module in [*once.corpus.sorted_by_size(descending=True)][: arguments.largest]:
        if not once.decisions(module):
            continue
        row = compare(once, full, module, arguments.rounds)
        rows.append(row)
        print(
            f"{row.module:32} {row.bitcode_bytes:9} {row.decisions:9} {row.full_seconds:7.3f} s "
            f"{row.once_seconds:12.3f} s {row.speedup:6.2f}x  {'identical' if row.identical else 'DIFFERENT'}",
            flush=True,
        )
    print(f"geometric mean: {statistics.geometric_mean(row.speedup for row in rows):.2f}x")
    if arguments.json:
        arguments.json.write_text(
            json.dumps([{**asdict(row), "speedup": row.speedup} for row in rows], indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
