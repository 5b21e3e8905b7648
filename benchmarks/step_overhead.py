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

import gymnasium as gym

from benchmarks.measuring import Table, command_line, play_default, write_json
from mlgo_clang.files import scratch_parent
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING

MAX_ADDED_MS = 0.10
"""Target: milliseconds that the environment may add to plain clang per decision."""

MAX_RATIO = 1.15
"""Target: duration of an episode, divided by that of the smallest host loop."""

MIN_DECISIONS = 1000

PLAIN, LOOP, ENVIRONMENT = "plain clang", "smallest host loop", "mlgo/Inline-v0"


class Run(NamedTuple):
    """One compile.

    Attributes:
        seconds: wall-clock time, from before the start of clang to after its end.
        host_seconds: CPU time of this process.
        all_seconds: CPU time of this process and of clang.
        decisions: number of decisions; 0 for plain clang.
    """

    seconds: float
    host_seconds: float
    all_seconds: float
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
    clock, host, clang = time.perf_counter(), time.process_time(), _clang_seconds()
    decisions = compile_once()
    host = time.process_time() - host
    return Run(time.perf_counter() - clock, host, host + _clang_seconds() - clang, decisions)


def _clang_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compare(corpus: str, module: str | None, clang: str | None, repetitions: int) -> dict[str, Any]:
    """Time the three hosts on a module (default: the largest)."""
    env = gym.make(ENVIRONMENT, corpus=corpus, clang=clang)
    inner = env.unwrapped
    assert isinstance(inner, InlineEnv)
    chosen = inner.corpus.module(module) if module else inner.corpus.sorted_by_size(descending=True)[0]
    compilation = inner.compilation(chosen)
    measure_baseline(compilation, timeout=600)
    hosts: dict[str, Callable[[], int]] = {
        PLAIN: lambda: plain(compilation),
        LOOP: lambda: smallest_loop(compilation),
        ENVIRONMENT: lambda: int(play_default(env, module=chosen.name)["decisions"]),
    }
    runs: dict[str, list[Run]] = {name: [] for name in hosts}
    for repetition in range(repetitions + 1):
        for name, host in hosts.items():
            run = timed(host)
            if repetition:  # the first one fills the file cache
                runs[name].append(run)
    env.close()
    counts = {run.decisions for name in runs for run in runs[name] if name != PLAIN}
    if len(counts) != 1:
        raise SystemExit(f"expected equal numbers of decisions in all compiles, got {sorted(counts)}")
    (decisions,) = counts
    if decisions < MIN_DECISIONS:
        print(f"{chosen.name} has {decisions} decisions; choose a module with at least {MIN_DECISIONS}\n")
    return {
        "module": chosen.name,
        "corpus": corpus,
        "clang": inner.toolchain.version_text,
        "decisions": decisions,
        "repetitions": repetitions,
        "hosts": {name: summary(each, runs, decisions) for name, each in runs.items()},
    }


def summary(of_host: list[Run], runs: dict[str, list[Run]], decisions: int) -> dict[str, Any]:
    """Return the medians of one host's runs, and their ratios to the others."""

    def median(of: list[Run], field: str) -> float:
        return statistics.median(float(getattr(run, field)) for run in of)

    result: dict[str, Any] = {"runs": [run._asdict() for run in of_host]}
    result |= {field: median(of_host, field) for field in ("seconds", "host_seconds", "all_seconds")}
    for field, label in (("seconds", ""), ("all_seconds", "cpu_")):
        own, clang = median(of_host, field), median(runs[PLAIN], field)
        result[f"{label}added_ms_per_decision"] = 1000 * (own - clang) / decisions
        result[f"{label}ratio_to_plain_clang"] = own / clang
        result[f"{label}ratio_to_smallest_loop"] = own / median(runs[LOOP], field)
    return result


def show(result: dict[str, Any]) -> bool:
    """Print the tables; return whether the targets are met."""
    print("{corpus}: {module}, {decisions} decisions, clang {clang}, median of {repetitions}\n".format(**result))
    for label, title in (("", "by the clock"), ("cpu_", "CPU time of host and clang")):
        table = Table(
            {
                title: "<28",
                "ms": ">9.1f",
                "ms per decision": ">15.4f",
                "to plain": ">8.3f",
                "to smallest loop": ">16.3f",
            }
        )
        for name, row in result["hosts"].items():
            ratios = [row[f"{label}{key}"] for key in ("ratio_to_plain_clang", "ratio_to_smallest_loop")]
            seconds = row["all_seconds" if label else "seconds"]
            table.row(name, 1000 * seconds, row[f"{label}added_ms_per_decision"], *ratios)
        print()
    ours = result["hosts"][ENVIRONMENT]
    met = ours["added_ms_per_decision"] <= MAX_ADDED_MS and ours["ratio_to_smallest_loop"] <= MAX_RATIO
    verdict = "met" if met else "missed"
    print(
        f"targets, by the clock: {MAX_ADDED_MS:.2f} ms per decision, {MAX_RATIO} of the smallest host loop: {verdict}"
    )
    return bool(met)


def main() -> None:
    """Measure, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--corpus", default="zstd", help="any corpus of mlgo-gym (default: zstd)")
    parser.add_argument("--module", help="a module of it (default: the largest)")
    parser.add_argument("--clang", help="a path or a name on PATH (default: $MLGO_CLANG, else the bundled one)")
    parser.add_argument("--repetitions", type=int, default=15, help="compiles per host (default: 15)")
    parser.add_argument("--output", type=Path, default=Path("runs/step_overhead.json"), help="JSON file to write")
    options = parser.parse_args()
    try:
        result = compare(options.corpus, options.module, options.clang, options.repetitions)
    except MlgoError as error:
        raise SystemExit(str(error)) from None
    met = show(result)
    write_json(options.output, result)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
