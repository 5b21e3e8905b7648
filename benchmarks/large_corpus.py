"""Time and memory of a corpus with very many modules: opening, sampling, splitting, evaluating.

    python -m benchmarks.large_corpus --modules 100000 --folder /tmp/large
    python -m benchmarks.large_corpus --modules 100000 --folder /tmp/large --evaluate 5000 --json large.json

Prints seconds, CPU seconds and megabytes for each step. Every module has its own content: a small one in LLVM's bitcode
wrapper, followed by its number. Each step runs in a new process, so its memory is its own.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.measuring import Table, command_line, play_default, write_json
from mlgo_gym.corpus.modules.corpus import Corpus
from mlgo_gym.corpus.modules.description import DESCRIPTION_FILE, write_description
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.evaluation import Evaluation, load_result
from mlgo_gym.llvm.toolchain import find_toolchain

ENVIRONMENT = "mlgo/Inline-v0"
SOURCE = """
static int twice(int x) { return 2 * x; }
int apply(int x) { return twice(x) + twice(x + 1); }
int again(int x) { return apply(x) - twice(x); }
"""

WRAPPER = (0x0B17C0DE, 0, 20)
"""Magic number, version and offset of the bitcode in LLVM's wrapper."""

CPU_TYPE = 7
TARGET = "x86_64-unknown-linux-musl"
COMMAND = f"-cc1 -triple {TARGET} -Oz -emit-obj -mrelocation-model pic"
EPISODES_PER_SAMPLE = 50
MODULES_PER_FOLDER = 1000


def make(folder: Path, modules: int) -> None:
    """Write the corpus if the folder has none."""
    if (folder / DESCRIPTION_FILE).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    source, compiled = folder / "source.c", folder / "source.bitcode"
    source.write_text(SOURCE)
    flags = [f"--target={TARGET}", "-Oz", "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm"]
    done = find_toolchain("bundled").run([*flags, "-c", str(source), "-o", str(compiled)])
    assert done.returncode == 0, done.stderr
    bitcode = compiled.read_bytes()
    header = struct.pack("<5I", *WRAPPER, len(bitcode), CPU_TYPE)
    command = b"".join(word.encode() + b"\0" for word in COMMAND.split())
    names = [f"part-{number // MODULES_PER_FOLDER}/module-{number}.o" for number in range(modules)]
    for number, name in enumerate(names):
        path = folder / f"{name}.bc"
        if number % MODULES_PER_FOLDER == 0:
            path.parent.mkdir(exist_ok=True)
        path.write_bytes(header + bitcode + number.to_bytes(8, "little"))
        path.with_suffix(".cmd").write_bytes(command)
    write_description(folder, names)


def resident() -> float:
    """Return the resident memory of this process, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def timed(step: Callable[[], Any]) -> dict[str, float]:
    """Return the time and the memory of a step."""
    start, cpu, before = time.perf_counter(), time.process_time(), resident()
    result = step()
    measured = {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": time.process_time() - cpu,
        "more_mb": resident() - before,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }
    del result
    return measured


def opened(folder: Path) -> Corpus:
    """Return the corpus."""
    return open_corpus(folder, toolchain=find_toolchain("bundled"))


def without_description(folder: Path) -> Corpus:
    """Return the corpus, opened without its description."""
    (folder / DESCRIPTION_FILE).rename(folder / "aside")
    try:
        return opened(folder)
    finally:
        (folder / "aside").rename(folder / DESCRIPTION_FILE)


def evaluation(corpus: Corpus, limit: int | None) -> None:
    """Start an evaluation."""
    Evaluation(ENVIRONMENT, policies=["always"], corpus=corpus, limit=limit).close()


OF_FOLDER: dict[str, Callable[[Path], Any]] = {
    "open": opened,
    "open without a description": without_description,
    "episode of an environment": lambda folder: play_default(gym.make(ENVIRONMENT, corpus=folder), 1),
}

OF_CORPUS: dict[str, Callable[[Corpus], Any]] = {
    "find one": lambda corpus: corpus.module(corpus.names[-1]),
    "filter by a glob": lambda corpus: corpus.filter(names="part-1/*"),
    "sample 100": lambda corpus: corpus.sample(100, seed=1),
    "sample 100 in 10 strata": lambda corpus: corpus.sample(100, seed=1, strata=10),
    "split": lambda corpus: corpus.split("test"),
    "split again": lambda corpus: corpus.split("test"),
    "all modules": list,
    "start an evaluation of 100": lambda corpus: evaluation(corpus, 100),
    "start an evaluation of all": lambda corpus: evaluation(corpus, None),
}

STEPS = (*OF_FOLDER, *OF_CORPUS)


def measure(step: str, folder: Path) -> dict[str, float]:
    """Measure one step in this process."""
    if step in OF_FOLDER:
        return timed(lambda: OF_FOLDER[step](folder))
    corpus = opened(folder)
    return timed(lambda: OF_CORPUS[step](corpus))


def evaluate(folder: Path, limit: int) -> dict[str, Any]:
    """Evaluate modules; return the growth of this process's memory."""
    samples: list[tuple[int, float]] = []
    start = time.perf_counter()
    policies = ["always", "default"]
    with (
        tempfile.TemporaryDirectory() as output,
        Evaluation(ENVIRONMENT, policies=policies, corpus=opened(folder), limit=limit, output=output) as running,
    ):
        before = resident()
        samples = [(number, resident()) for number, _ in enumerate(running.run()) if number % EPISODES_PER_SAMPLE == 0]
        count = len(load_result(output).episodes)
    episodes, memory = np.array(samples, float).T
    # The first tenth loads libraries and fills caches.
    later = episodes >= episodes[-1] / 10
    return {
        "episodes": count,
        "seconds": time.perf_counter() - start,
        "begun_mb": before,
        "tenth_mb": float(memory[later][0]),
        "last_mb": float(memory[-1]),
        "mb_per_1000_episodes": 1000 * float(np.polyfit(episodes[later], memory[later], 1)[0]),
    }


def main() -> None:
    """Measure, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--modules", type=int, default=100_000, help="number of modules (default: 100000)")
    parser.add_argument("--folder", type=Path, required=True, help="folder of the corpus; written if it is empty")
    parser.add_argument("--evaluate", type=int, default=0, metavar="N", help="also evaluate N modules")
    parser.add_argument("--only", choices=STEPS, action="append", help="a step to measure (default: all); repeatable")
    parser.add_argument("--json", type=Path, help="JSON file to write")
    parser.add_argument("--in-process", choices=(*STEPS, "evaluate"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_process:
        one = options.in_process
        found = evaluate(options.folder, options.evaluate) if one == "evaluate" else measure(one, options.folder)
        print(json.dumps(found))
        return
    start = time.perf_counter()
    make(options.folder, options.modules)
    print(f"{options.modules} modules written or found in {time.perf_counter() - start:.1f} s")

    def in_new_process(step: str) -> dict[str, Any]:
        words = ["--folder", str(options.folder), "--evaluate", str(options.evaluate), "--in-process", step]
        command = [sys.executable, "-m", "benchmarks.large_corpus", *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        row: dict[str, Any] = json.loads(done.stdout)
        return row

    rows: dict[str, Any] = {}
    table = Table({"": "<30", "seconds": ">8.2f", "CPU s": ">8.2f", "MB more": ">8.1f", "peak MB": ">8.1f"})
    for step in options.only or STEPS:
        rows[step] = in_new_process(step)
        table.row(step, *rows[step].values())
    if options.evaluate:
        row = rows["evaluate"] = in_new_process("evaluate")
        print(
            f"{row['episodes']} episodes in {row['seconds']:.0f} s: {row['begun_mb']:.0f} MB before the first, "
            f"{row['tenth_mb']:.1f} after a tenth, {row['last_mb']:.1f} at the last; "
            f"{row['mb_per_1000_episodes']:+.3f} MB per 1,000"
        )
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
