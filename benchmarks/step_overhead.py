"""Cost of a decision: plain clang, the smallest host loop and `mlgo/Inline-v0` on one module.

    python -m benchmarks.step_overhead --corpus zstd

Prints milliseconds per episode, milliseconds added per decision, and ratios, by the clock and in CPU time. Every
episode starts a new clang. The hosts answer clang's own choices, so all compiles give the same object. The three take
turns, and medians are compared; the ratios hold on a busy machine. The exit status is 1 if a target is missed.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measuring import Table, command_line, play_default, write_json
from mlgo_clang.files import scratch_parent
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.envs import InlineEnv
from mlgo_gym.llvm.advisors import INLINING

MAX_ADDED_MS = 0.10
"""Target: milliseconds that the environment may add to plain clang per decision."""

MAX_RATIO = 1.15
"""Target: duration of an episode, divided by that of the smallest host loop."""

MIN_DECISIONS = 1000

PLAIN, LOOP, ENVIRONMENT = "plain clang", "smallest host loop", "mlgo/Inline-v0"


class Run(NamedTuple):
    """One compile: wall-clock seconds, CPU seconds of this process and of clang, and the number of decisions."""

    seconds: float
    cpu_seconds: float
    decisions: int


def plain(compilation: Compilation) -> int:
    """Compile without interaction."""
    _wait(os.posix_spawn(compilation.command[0], [*compilation.command, "-o", os.devnull], os.environ))
    return 0


def smallest_loop(compilation: Compilation) -> int:
    """Answer clang's own choices with blocking reads, and return the number of decisions.

    clang writes each observation with one write(2) that is shorter than a pipe's atomic size, so one read(2) gets it.
    """
    folder = tempfile.mkdtemp(dir=scratch_parent())
    base = f"{folder}/c"
    os.mkfifo(f"{base}.in")
    os.mkfifo(f"{base}.out")
    command = [*compilation.command, *INLINING.flags(base), "-o", os.devnull]
    pid = os.posix_spawn(command[0], command, os.environ)
    advice, log = os.open(f"{base}.in", os.O_RDWR), os.open(f"{base}.out", os.O_RDONLY)
    decisions = 0
    while data := os.read(log, 65536):
        if b'{"observation":' in data:
            os.write(advice, data[-9:-1])  # the last feature is clang's own choice; a newline ends the observation
            decisions += 1
    _wait(pid)
    os.close(advice)
    os.close(log)
    shutil.rmtree(folder)
    return decisions


def _wait(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit(f"clang failed with status {os.waitstatus_to_exitcode(status)}")


def timed(compile_once: Callable[[], int]) -> Run:
    """Time one compile."""

    def children() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    clock, cpu = time.perf_counter(), time.process_time() + children()
    decisions = compile_once()
    return Run(time.perf_counter() - clock, time.process_time() + children() - cpu, decisions)


def compare(corpus: str, module: str | None, clang: str | None, repetitions: int) -> dict[str, Any]:
    """Time the three hosts on a module (default: the largest)."""
    env = InlineEnv(corpus=corpus, clang=clang)
    timed_module = env.corpus.module(module) if module else env.corpus.sorted_by_size(descending=True)[0]
    compilation = env.compilation(timed_module)
    hosts: dict[str, Callable[[], int]] = {
        PLAIN: lambda: plain(compilation),
        LOOP: lambda: smallest_loop(compilation),
        ENVIRONMENT: lambda: int(play_default(env, module=timed_module.name)["decisions"]),
    }
    hosts[ENVIRONMENT]()  # measures the baseline
    runs: dict[str, list[Run]] = {name: [] for name in hosts}
    for repetition in range(repetitions + 1):
        for name, host in hosts.items():
            run = timed(host)
            if repetition:  # the first one fills the file cache
                runs[name].append(run)
    env.close()
    counts = {run.decisions for name in (LOOP, ENVIRONMENT) for run in runs[name]}
    if len(counts) != 1:
        raise SystemExit(f"expected equal numbers of decisions in all compiles, got {sorted(counts)}")
    (decisions,) = counts
    if decisions < MIN_DECISIONS:
        print(f"{timed_module.name} has {decisions} decisions; choose a module with at least {MIN_DECISIONS}\n")
    medians = {
        name: {field: statistics.median(getattr(run, field) for run in of_host) for field in Run._fields[:2]}
        for name, of_host in runs.items()
    }
    return {"module": timed_module.name, "corpus": corpus, "decisions": decisions, "hosts": medians, "runs": runs}


def show(result: dict[str, Any]) -> bool:
    """Print the tables; return whether the targets are met."""
    hosts, decisions = result["hosts"], result["decisions"]
    print(f"{result['corpus']}: {result['module']}, {decisions} decisions\n")
    ratios = {"to plain": ">8.3f", "to smallest loop": ">16.3f"}
    for field, title in (("seconds", "by the clock"), ("cpu_seconds", "CPU time of host and clang")):
        table = Table({title: "<28", "ms": ">9.1f", "ms per decision": ">15.4f", **ratios})
        for name, row in hosts.items():
            added = 1000 * (row[field] - hosts[PLAIN][field]) / decisions
            table.row(name, 1000 * row[field], added, *(row[field] / hosts[base][field] for base in (PLAIN, LOOP)))
        print()
    ours, clang, loop = (hosts[name]["seconds"] for name in (ENVIRONMENT, PLAIN, LOOP))
    met = bool(1000 * (ours - clang) / decisions <= MAX_ADDED_MS and ours / loop <= MAX_RATIO)
    print(f"targets, by the clock: {MAX_ADDED_MS:.2f} ms per decision, {MAX_RATIO} of the smallest host loop:", end=" ")
    print("met" if met else "missed")
    return met


def main() -> None:
    """Measure, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--corpus", default="zstd", help="any corpus of mlgo-gym (default: zstd)")
    parser.add_argument("--module", help="a module of it (default: the largest)")
    parser.add_argument("--clang", help="a path or a name on PATH (default: $MLGO_CLANG, else the bundled one)")
    parser.add_argument("--repetitions", type=int, default=15, help="compiles per host (default: 15)")
    parser.add_argument("--output", type=Path, default=Path("runs/step_overhead.json"), help="JSON file to write")
    options = parser.parse_args()
    result = compare(options.corpus, options.module, options.clang, options.repetitions)
    met = show(result)
    write_json(options.output, result)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
