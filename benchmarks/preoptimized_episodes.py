"""How much faster an episode of register allocation is when its module is optimised once.

    python benchmarks/preoptimized_episodes.py --corpus zstd --largest 8 --rounds 5

Clang's own choices answer every question. Episodes from optimised bitcode and episodes that compile in full take turns
in one run, so that a busy machine slows both; processor seconds, clang's and ours, are given beside those of the clock.
The objects of plain compiles of both kinds are compared byte for byte.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from mlgo_gym.corpus.module import Module
from mlgo_gym.envs import RegAllocEvictEnv
from mlgo_gym.session.session import Session

TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The episodes of one module: medians in seconds."""

    module: str
    bitcode_bytes: int
    decisions: int
    full_seconds: float
    once_seconds: float
    full_processor_seconds: float
    once_processor_seconds: float
    identical: bool

    @property
    def speedup(self) -> float:
        """How many times faster an episode is by the clock."""
        return self.full_seconds / self.once_seconds

    @property
    def processor_speedup(self) -> float:
        """How many times less processor time an episode takes."""
        return self.full_processor_seconds / self.once_processor_seconds


def processor_seconds() -> float:
    """Return the processor time of this process and of the compilers that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def episode(env: RegAllocEvictEnv, module: str) -> tuple[float, float, int]:
    """EpisodeRecord one episode; return its seconds by the clock and of processors, and its number of decisions."""
    start, processor_start = time.perf_counter(), processor_seconds()
    _, info = env.reset(options={"module": module})
    while "default_action" in info:
        *_, info = env.step(info["default_action"])
    return time.perf_counter() - start, processor_seconds() - processor_start, info["decisions"]


def plain_object(env: RegAllocEvictEnv, module: Module) -> bytes:
    """Return the object of a plain compile."""
    with Session(env.compilation(module).command) as session:
        return session.finish(TIMEOUT).object_bytes


def compare(once: RegAllocEvictEnv, full: RegAllocEvictEnv, module: Module, rounds: int) -> Comparison:
    """Compare the two kinds of episodes on one module; the first of each, which fills caches, does not count."""
    played: dict[RegAllocEvictEnv, list[tuple[float, float, int]]] = {once: [], full: []}
    for _ in range(rounds + 1):
        for one, episodes in played.items():
            episodes.append(episode(one, module.name))
    clock, processor, decisions = (
        {one: statistics.median(numbers[part] for numbers in episodes[1:]) for one, episodes in played.items()}
        for part in range(3)
    )
    return Comparison(
        module.name,
        module.bitcode.stat().st_size,
        int(decisions[once]),
        clock[full],
        clock[once],
        processor[full],
        processor[once],
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
        RegAllocEvictEnv(
            corpus=arguments.corpus, clang=arguments.clang, preoptimize=way, warm_resets=False, timeout=TIMEOUT
        )
        for way in (True, False)
    )
    rows = []
    titles = ("bitcode", "decisions", "full s", "once s", "faster", "full CPU s", "once CPU s", "less")
    print(f"{'module':36} {' '.join(f'{title:>10}' for title in titles)}  objects")
    for module in [*once.corpus.sorted_by_size(descending=True)][: arguments.largest]:
        if not once.decisions(module):
            continue
        row = compare(once, full, module, arguments.rounds)
        rows.append(row)
        clock = f"{row.full_seconds:10.3f} {row.once_seconds:10.3f} {row.speedup:9.2f}x"
        processor = (
            f"{row.full_processor_seconds:10.3f} {row.once_processor_seconds:10.3f} {row.processor_speedup:9.2f}x"
        )
        objects = "identical" if row.identical else "DIFFERENT"
        print(f"{row.module:36} {row.bitcode_bytes:10} {row.decisions:10} {clock} {processor}  {objects}", flush=True)
    clock_mean = statistics.geometric_mean(row.speedup for row in rows)
    processor_mean = statistics.geometric_mean(row.processor_speedup for row in rows)
    print(f"geometric mean: {clock_mean:.2f}x by the clock, {processor_mean:.2f}x of processor time")
    if arguments.json:
        data = [{**asdict(row), "speedup": row.speedup, "processor_speedup": row.processor_speedup} for row in rows]
        arguments.json.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
