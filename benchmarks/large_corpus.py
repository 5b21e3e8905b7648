"""How a corpus of very many modules behaves: opening, sampling, splitting, and an evaluation whose memory is watched.

Every module has content of its own: a small real one in LLVM's bitcode wrapper, with its number behind it. Each
measurement is a process of its own, so that its memory is its own too.

    python benchmarks/large_corpus.py --modules 100000 --folder /tmp/large
    python benchmarks/large_corpus.py --modules 100000 --folder /tmp/large --evaluate 5000 --json large.json
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import mlgo_gym  # noqa: F401 - registers the environments
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.description import DESCRIPTION_FILE, write_description
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.evaluation import Evaluation, load_result
from mlgo_gym.llvm.toolchain import find_toolchain

SOURCE = """
static int twice(int x) { return 2 * x; }
int apply(int x) { return twice(x) + twice(x + 1); }
int again(int x) { return apply(x) - twice(x); }
"""

MAGIC = 0x0B17C0DE
HEADER = 20
CPU_TYPE = 7
BETWEEN_SAMPLES = 50
"""The episodes between two looks at the memory of the host."""

PER_FOLDER = 1000


def make(folder: Path, modules: int) -> None:
    """Make the corpus, unless it is there."""
    if (folder / DESCRIPTION_FILE).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    source, bitcode = folder / "source.c", folder / "source.bitcode"
    source.write_text(SOURCE)
    flags = ["--target=x86_64-unknown-linux-musl", "-Oz", "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm"]
    answer = find_toolchain("bundled").run([*flags, "-c", str(source), "-o", str(bitcode)])
    assert answer.returncode == 0, answer.stderr
    inner = bitcode.read_bytes()
    header = struct.pack("<5I", MAGIC, 0, HEADER, len(inner), CPU_TYPE)
    command = b"".join(
        word.encode() + b"\0"
        for word in ["-cc1", "-triple", "x86_64-unknown-linux-musl", "-Oz", "-emit-obj", "-mrelocation-model", "pic"]
    )
    names = [f"part-{number // PER_FOLDER}/module-{number}.o" for number in range(modules)]
    for number, name in enumerate(names):
        path = folder / f"{name}.bc"
        if number % PER_FOLDER == 0:
            path.parent.mkdir(exist_ok=True)
        path.write_bytes(header + inner + number.to_bytes(8, "little"))
        path.with_suffix(".cmd").write_bytes(command)
    write_description(folder, names)


def resident() -> float:
    """Return the memory of this process now, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def timed(function: Callable[[], Any]) -> dict[str, float]:
    """Return how long a function takes and what it does to this process's memory."""
    wall, processor, before = time.perf_counter(), time.process_time(), resident()
    kept = function()
    taken = {
        "seconds": time.perf_counter() - wall,
        "processor_seconds": time.process_time() - processor,
        "more_mb": resident() - before,
        "mb": resident(),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }
    del kept
    return taken


def opened(folder: Path) -> Corpus:
    """Return the corpus."""
    return open_corpus(folder, toolchain=find_toolchain("bundled"))


def measure(what: str, folder: Path) -> dict[str, float]:
    """Do one of the measurements in this process."""
    if what == "open":
        return timed(lambda: opened(folder))
    if what == "open without a description":
        (folder / DESCRIPTION_FILE).rename(folder / "aside")
        try:
            return timed(lambda: opened(folder))
        finally:
            (folder / "aside").rename(folder / DESCRIPTION_FILE)
    if what == "episode of an environment":

        def play() -> Any:
            env = gym.make("mlgo/Inline-v0", corpus=folder)
            env.reset(seed=1)
            over = False
            while not over:
                _, _, terminated, truncated, _ = env.step(1)
                over = terminated or truncated
            env.close()

        return timed(play)
    corpus = opened(folder)
    work: dict[str, Callable[[], Any]] = {
        "sample 100": lambda: corpus.sample(100, seed=1),
        "sample 100 in 10 strata": lambda: corpus.sample(100, seed=1, strata=10),
        "draw 1,000 in turn": lambda: [next(iterator) for iterator in [corpus.sampler(1)] for _ in range(1000)],
        "find one": lambda: corpus.module(corpus.names[-1]),
        "filter by a glob": lambda: corpus.filter(names="part-1/*"),
        "split": lambda: corpus.split("test"),
        "split again": lambda: corpus.split("test"),
        "all modules": lambda: list(corpus),
        "begin an evaluation of 100": lambda: Evaluation(
            "mlgo/Inline-v0", policies=["always"], corpus=corpus, limit=100
        ).close(),
        "begin an evaluation of all": lambda: Evaluation("mlgo/Inline-v0", policies=["always"], corpus=corpus).close(),
    }
    return timed(work[what])


WHAT = (
    "open",
    "open without a description",
    "find one",
    "filter by a glob",
    "sample 100",
    "sample 100 in 10 strata",
    "draw 1,000 in turn",
    "episode of an environment",
    "split",
    "split again",
    "all modules",
    "begin an evaluation of 100",
    "begin an evaluation of all",
)


def evaluate(folder: Path, count: int, output: Path) -> dict[str, Any]:
    """Evaluate so many modules, and return how the memory of this process went."""
    samples: list[tuple[int, float]] = []
    started = time.perf_counter()
    with Evaluation(
        "mlgo/Inline-v0", policies=["always", "default"], corpus=opened(folder), limit=count, output=output
    ) as evaluation:
        begun = resident()
        for number, _ in enumerate(evaluation.run()):
            if number % BETWEEN_SAMPLES == 0:
                samples.append((number, resident()))
    seconds = time.perf_counter() - started
    episodes, memory = np.array(samples, float).T
    # The first tenth fills what is kept of the compiler and of libraries.
    later = episodes >= episodes[-1] / 10
    slope = float(np.polyfit(episodes[later], memory[later], 1)[0])
    return {
        "episodes": len(load_result(output).episodes),
        "seconds": seconds,
        "begun_mb": begun,
        "tenth_mb": float(memory[later][0]),
        "last_mb": float(memory[-1]),
        "mb_per_1000_episodes": 1000 * slope,
    }


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, required=True, help="where the corpus is, or is made")
    parser.add_argument("--evaluate", type=int, default=0, metavar="N", help="evaluate so many of its modules too")
    parser.add_argument("--only", choices=WHAT, action="append")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", choices=(*WHAT, "evaluate"), help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.one == "evaluate":
        with tempfile.TemporaryDirectory() as output:
            print(json.dumps(evaluate(given.folder, given.evaluate, Path(output))))
        return
    if given.one:
        print(json.dumps(measure(given.one, given.folder)))
        return
    started = time.perf_counter()
    make(given.folder, given.modules)
    print(f"{given.modules} modules made or found in {time.perf_counter() - started:.1f} s")
    print(f"{'':30} {'seconds':>8} {'processor':>9} {'MB more':>8} {'peak MB':>8}")
    found: dict[str, Any] = {}
    command = [sys.executable, __file__, "--folder", str(given.folder), "--modules", str(given.modules)]
    for what in given.only or WHAT:
        answer = subprocess.run([*command, "--one", what], capture_output=True, text=True, check=True)
        row = found[what] = json.loads(answer.stdout)
        print(
            f"{what:30} {row['seconds']:8.2f} {row['processor_seconds']:9.2f} {row['more_mb']:8.1f} "
            f"{row['peak_mb']:8.1f}",
            flush=True,
        )
    if given.evaluate:
        answer = subprocess.run(
            [*command, "--one", "evaluate", "--evaluate", str(given.evaluate)],
            capture_output=True,
            text=True,
            check=True,
        )
        row = found["evaluate"] = json.loads(answer.stdout)
        print(
            f"{row['episodes']} episodes in {row['seconds']:.0f} s: {row['begun_mb']:.0f} MB before the first, "
            f"{row['tenth_mb']:.1f} after a tenth, {row['last_mb']:.1f} at the last; "
            f"{row['mb_per_1000_episodes']:+.3f} MB for 1,000"
        )
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
