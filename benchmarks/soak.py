"""Hours of episodes of every kind with faults; prints whether memory, processes or files grow or remain.

    python -m benchmarks.soak --minutes 60 --output runs/soak

Runs every registered environment in the scenarios of `soak_scenarios.py`: long-lived and fresh, in vectors (in lock
step, and with `send` and `recv`), with forks, fork resets and episodes of one function. The faults between them: a
clang killed during a request, damaged bitcode, actions that are illegal or out of range, episodes closed early.

Samples memory, processes, descriptors, threads, scratch space and the cache. The slope of each over the episodes (Theil
and Sen's, with an interval of 99 %, without the first 15 % of the samples) is compared with `soak_samples.LIMITS`.
Neighbouring samples are alike, so the interval is somewhat too narrow. At the end everything is closed.

Writes `soak.json` and, if matplotlib is installed, `soak.png`. The exit status is 0 if everything is flat and nothing
remains, 1 if something grows or remains, and 2 if an interval contains its limit: run longer.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import gymnasium as gym
import numpy as np

from benchmarks.measuring import command_line, write_json
from benchmarks.soak_samples import Sample, as_json, draw, print_slopes, slopes, take_sample
from benchmarks.soak_scenarios import CUT_OFF, DAMAGED, SCENARIOS, Environments
from mlgo_clang.files import scratch_parent
from mlgo_gym.corpus.builtin import builtin_corpus
from mlgo_gym.episode import episode_maker
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.make_env import compiler_environments

PROGRAMS = Path(__file__).parents[1] / "tests" / "programs"
SMALL = ("calls", "families", "functions", "many_calls", "mixed", "pressure", "spills")
BUILTIN = "cpp/ecs"
FLAGS = ("-Oz", "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c", "--target=x86_64-unknown-linux-musl")

POOL_SIZES: dict[str, Any] = {"MAX_MODULES": 3, "MAX_FUNCTIONS": 6}
"""Numbers of clangs that wait for further episodes; the default pools take thousands of episodes to fill."""


def make_corpus(folder: Path) -> None:
    """Write small modules, one of the builtin corpus, and two damaged ones to a folder."""
    toolchain = find_toolchain()
    for name in SMALL:
        result = toolchain.run([*FLAGS, str(PROGRAMS / f"{name}.c"), "-o", str(folder / f"{name}.bc")])
        if result.returncode != 0:
            sys.exit(result.stderr)
    shutil.copy(builtin_corpus(toolchain).module(BUILTIN).bitcode, folder / f"{BUILTIN.replace('/', '-')}.bc")
    bitcode = (folder / "mixed.bc").read_bytes()
    middle = len(bitcode) // 8 * 4
    (folder / f"{CUT_OFF}.bc").write_bytes(bitcode[:middle])
    (folder / f"{DAMAGED}.bc").write_bytes(bitcode[:middle] + b"\xff" * 32 + bitcode[middle + 32 :])


def rounds(environments: list[Environments], chance: np.random.Generator) -> Iterator[tuple[str, Environments]]:
    """Yield rounds of all scenarios of all environments for ever, each round in a new random order."""
    items = [(name, envs) for envs in environments for name in SCENARIOS if name != "functions" or envs.has_functions]
    while True:
        yield from (items[index] for index in chance.permutation(len(items)))


def remaining(before: Sample, after: Sample) -> dict[str, int]:
    """Return the numbers of resources that remain after everything was closed."""
    folders = sum(1 for _ in Path(scratch_parent()).glob(f"mlgo-gym-{os.getpid()}-*/*"))
    names = ("processes", "descriptors", "threads")
    return {name: getattr(after, name) - getattr(before, name) for name in names} | {"scratch folders": folders}


def soak(options: argparse.Namespace, corpus: str, cache: Path) -> int:
    """Run scenarios until the time is over; return the exit status."""
    chance = np.random.default_rng(options.seed)
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
    samples: list[Sample] = []
    interval, sampled = max(1.0, options.minutes * 60 / 1200), 0.0
    for name, envs in rounds(environments, chance):
        now = time.monotonic()
        if now - start > options.minutes * 60:
            break
        if now - sampled > interval and tally["episodes"]:
            samples.append(take_sample(start, tally["episodes"], cache))
            sampled = now
        if now - printed > 60:
            printed = now
            print(f"{(now - start) / 60:5.1f} min", samples[-1], flush=True)
        episodes = SCENARIOS[name](envs)
        by_scenario[f"{envs.env_id}: {name}"] += episodes
        tally["episodes"] += episodes
    for envs in environments:
        envs.close()
    environments.clear()
    gc.collect()
    found = slopes(samples)
    left = remaining(before, take_sample(start, tally["episodes"], cache))
    print_slopes(found, samples)
    print("events:", ", ".join(f"{count} {name}" for name, count in sorted(tally.items())))
    print("remaining:", ", ".join(f"{count} {name}" for name, count in left.items()))
    data = {
        "minutes": options.minutes,
        "seed": options.seed,
        "clang": find_toolchain().version_text,
        "tally": dict(tally),
        "episodes_by_scenario": dict(by_scenario),
        "remaining": left,
        **as_json(found, samples),
    }
    write_json(options.output / "soak.json", data)
    if find_spec("matplotlib") is not None:
        draw(samples, options.output / "soak.png")
    verdicts = {each.verdict for each in found}
    if any(left.values()) or "grows" in verdicts:
        return 1
    return 2 if "undecided" in verdicts else 0


def main() -> None:
    """Run the soak in a temporary folder with an empty cache."""
    parser = command_line(__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="duration (default: 60)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/soak"), help="folder of the results")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="mlgo-soak-"))
    try:
        os.environ["MLGO_CACHE"] = str(work / "cache")
        corpus = work / "corpus"
        corpus.mkdir()
        make_corpus(corpus)
        with mock.patch.multiple(episode_maker, **POOL_SIZES):
            status = soak(options, str(corpus), work / "cache")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
