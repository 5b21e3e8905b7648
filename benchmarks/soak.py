"""Hours of episodes of every kind, with faults: does anything grow, does anything stay behind?

    python -m benchmarks.soak --minutes 60 --output runs/soak

Every registered environment is played singly (one that lives as long as the soak, and a fresh one each time), in
vectors (in lock step, and over `send` and `recv`), with forks, with clangs that wait for the next episode, and with the
scope of a function. In between come faults: a clang is killed in the middle of a question, a module's bitcode is cut
off, actions are out of range, illegal or not finite, episodes and forks are closed or reset in the middle.

After each turn it samples memory, processes, descriptors, threads, scratch space and the cache. What counts is the
slope of each over the episodes behind the first 15 % of the samples (Theil and Sen's, with an interval of 99 %),
against a limit that `soak_samples.LIMITS` states; samples near each other are alike, so that the interval is somewhat
too narrow. At the end everything is closed, and nothing may be left.

It writes `soak.json` and, where matplotlib is installed, `soak.png`. The exit status is 0 where everything is flat and
nothing is left, 1 where something grows or is left, 2 where the limit is within an interval: take longer.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import gymnasium as gym
import numpy as np

import mlgo_gym
from benchmarks.soak_plays import CUT_OFF, DAMAGED, PLAYS, Player
from benchmarks.soak_samples import Sample, as_json, draw, slopes, table, take_sample
from mlgo_gym.corpus.builtin import builtin_corpus
from mlgo_gym.episode import episode_maker
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.session.scratch import scratch_parent

PROGRAMS = Path(__file__).parents[1] / "tests" / "programs"
SMALL = ("calls", "families", "functions", "many_calls", "mixed", "pressure", "spills")
BUILTIN = ("cpp/ecs",)
FLAGS = ("-Oz", "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c", "--target=x86_64-unknown-linux-musl")


WAITING, WAITING_AT_FUNCTIONS = 3, 6
"""How many clangs wait for further episodes of an environment; by default 8 and 32, which take thousands of episodes to
come together, so that a soak would see them grow."""


def make_corpus(folder: Path) -> None:
    """Fill a folder with small modules, one of the builtin corpus, and two that are damaged."""
    toolchain = find_toolchain()
    for name in SMALL:
        result = toolchain.run([*FLAGS, str(PROGRAMS / f"{name}.c"), "-o", str(folder / f"{name}.bc")])
        if result.returncode != 0:
            sys.exit(result.stderr)
    builtin = builtin_corpus(toolchain)
    for name in BUILTIN:
        shutil.copy(builtin.module(name).bitcode, folder / f"{name.replace('/', '-')}.bc")
    whole = (folder / "mixed.bc").read_bytes()
    middle = len(whole) // 8 * 4
    (folder / f"{CUT_OFF}.bc").write_bytes(whole[:middle])
    (folder / f"{DAMAGED}.bc").write_bytes(whole[:middle] + b"\xff" * 32 + whole[middle + 32 :])


def turns(players: list[Player], chance: np.random.Generator) -> Iterator[tuple[str, Callable[[], int]]]:
    """Yield, for ever, which play is next: each of each player once, in an order drawn anew each round."""
    plays = [(player, name) for player in players for name in PLAYS if PLAYS[name].fits(player)]
    while True:
        for index in chance.permutation(len(plays)):
            player, name = plays[index]
            yield f"{player.env_id}: {name}", lambda player=player, name=name: PLAYS[name].play(player)  # type: ignore[misc] # mypy cannot infer lambdas with defaults


def left_behind(before: Sample, after: Sample) -> dict[str, float]:
    """Return what is there after everything was closed and was not there before."""
    folders = sum(1 for _ in Path(scratch_parent()).glob(f"mlgo-gym-{os.getpid()}-*/*"))
    return {
        "processes": after.processes - before.processes,
        "descriptors": after.descriptors - before.descriptors,
        "threads": after.threads - before.threads,
        "scratch folders": folders,
    }


def main() -> None:
    """Play, sample, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/soak"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="mlgo-soak-"))
    try:
        os.environ["MLGO_CACHE"] = str(work / "cache")
        corpus = work / "corpus"
        corpus.mkdir()
        make_corpus(corpus)
        status = soak(arguments, str(corpus), work / "cache")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(status)


def soak(arguments: argparse.Namespace, corpus: str, cache: Path) -> int:
    """Play until the time is over; return the exit status."""
    chance = np.random.default_rng(arguments.seed)
    vars(episode_maker).update(MOST=WAITING, MOST_FUNCTIONS=WAITING_AT_FUNCTIONS)
    # What is loaded and measured once is no growth.
    for env_id in mlgo_gym.ENVIRONMENTS:
        gym.make(env_id, corpus=corpus).close()
    start = time.monotonic()
    before = take_sample(start, 0, cache)
    tally: Counter[str] = Counter()
    players = [
        Player(env_id, corpus, np.random.default_rng(chance.integers(1 << 63)), tally)
        for env_id in mlgo_gym.ENVIRONMENTS
    ]
    samples: list[Sample] = []
    by_play: Counter[str] = Counter()
    said = start
    every = max(1.0, arguments.minutes * 60 / 1200)
    sampled = 0.0
    for name, play in turns(players, chance):
        if time.monotonic() - start > arguments.minutes * 60:
            break
        episodes = play()
        by_play[name] += episodes
        tally["episodes"] += episodes
        if time.monotonic() - sampled > every:
            samples.append(take_sample(start, tally["episodes"], cache))
            sampled = time.monotonic()
        if time.monotonic() - said > 60:
            said = time.monotonic()
            last = samples[-1]
            print(
                f"{last.seconds / 60:5.1f} min {last.episodes:7} episodes  host {last.host_memory:6.1f} MiB  children "
                f"{last.processes:3} with {last.children_memory:6.1f} MiB  descriptors {last.descriptors:4}  scratch "
                f"{last.scratch:5.2f} MiB  cache {last.cache:5.1f} MiB",
                flush=True,
            )
    for player in players:
        player.close()
    players.clear()
    gc.collect()
    after = take_sample(start, tally["episodes"], cache)
    found = slopes(samples)
    left = left_behind(before, after)
    print(table(found, samples))
    print("what happened:", ", ".join(f"{count} {what}" for what, count in sorted(tally.items())))
    print("left behind:", ", ".join(f"{count} {what}" for what, count in left.items()))
    data = {
        "minutes": arguments.minutes,
        "seed": arguments.seed,
        "clang": find_toolchain().version_text,
        "tally": dict(tally),
        "episodes_by_play": dict(by_play),
        "left": left,
        **as_json(found, samples),
    }
    (arguments.output / "soak.json").write_text(json.dumps(data, indent=1) + "\n")
    if find_spec("matplotlib") is not None:
        draw(samples, arguments.output / "soak.png")
    verdicts = {each.verdict for each in found}
    if any(left.values()) or "grows" in verdicts:
        return 1
    return 2 if "undecided" in verdicts else 0


if __name__ == "__main__":
    main()
