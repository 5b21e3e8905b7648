"""What a decision costs: plain clang, the smallest host loop, and our environment, on one module, in one run.

    python benchmarks/step_overhead.py --corpus zstd

Every episode is cold: a new clang compiles the module from its start. The host answers what clang would have done
itself, so all three make the same object, and what differs is the asking. The three take turns, medians are compared,
and the ratios are what counts: they hold on a noisy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.scratch import scratch_parent

MOST_ADDED_MS = 0.10
"""The target: milliseconds that our environment may add to each decision, over plain clang."""

MOST_RATIO = 1.15
"""The target: the duration of an episode of ours, against the smallest host loop's."""

FEWEST_DECISIONS = 1000


class Run(NamedTuple):
    """One compile.

    Attributes:
        seconds: by the clock, from before the start of clang to after its end.
        host_seconds: processor time of this process.
        all_seconds: processor time of this process and of clang.
        decisions: how many were answered.
    """

    seconds: float
    host_seconds: float
    all_seconds: float
    decisions: int


def plain(compilation: Compilation) -> int:
    """Compile without being asked anything."""
    pid = os.posix_spawn(compilation.command[0], [*compilation.command, "-o", os.devnull], os.environ)
    _wait(pid)
    return 0


def smallest_loop(compilation: Compilation) -> int:
    """Answer what clang would do itself, with blocking reads and nothing else, and count.

    clang writes each question with one write(2), shorter than a pipe's atomic size: one read(2) is one question.
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
            os.write(advice, data[-9:-1])  # the last feature is clang's own choice; a newline ends the question
            decisions += 1
    _wait(pid)
    os.close(advice)
    os.close(log)
    shutil.rmtree(folder)
    return decisions


def our_environment(env: gym.Env[object, int], module: str) -> int:
    """EpisodeRecord one episode with clang's own choices, and count."""
    _, info = env.reset(options={"module": module})
    decisions, over = 0, False
    while not over:
        _, _, over, truncated, info = env.step(info.get("default_action", 0))
        if truncated:
            raise SystemExit(f"the compile failed: {info['error']}")
        decisions += 1
    return decisions


def _wait(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit(f"clang failed with status {os.waitstatus_to_exitcode(status)}")


def timed(contender: Callable[[], int]) -> Run:
    """Time one compile."""
    clock, host, clang = time.perf_counter(), time.process_time(), _clang_seconds()
    decisions = contender()
    host = time.process_time() - host
    return Run(time.perf_counter() - clock, host, host + _clang_seconds() - clang, decisions)


def _clang_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compare(corpus: str, module: str | None, clang: str | None, repetitions: int) -> dict[str, object]:
    """Return what the three take on a module; the corpus' largest by default."""
    env = gym.make("mlgo/Inline-v0", corpus=corpus, clang=clang)
    inner = env.unwrapped
    assert isinstance(inner, InlineEnv)
    chosen = inner.corpus.module(module) if module else inner.corpus.sorted_by_size(descending=True)[0]
    compilation = inner.compilation(chosen)
    measure_baseline(compilation, timeout=600)
    contenders: dict[str, Callable[[], int]] = {
        "plain clang": lambda: plain(compilation),
        "smallest host loop": lambda: smallest_loop(compilation),
        "mlgo/Inline-v0": lambda: our_environment(env, chosen.name),
    }
    runs: dict[str, list[Run]] = {name: [] for name in contenders}
    for repetition in range(repetitions + 1):
        for name, contender in contenders.items():
            run = timed(contender)
            if repetition:  # the first warms the file cache
                runs[name].append(run)
    env.close()
    counts = {run.decisions for name in runs for run in runs[name] if name != "plain clang"}
    if len(counts) != 1:
        raise SystemExit(f"both hosts were to be asked equally often, and were asked {sorted(counts)} times")
    (decisions,) = counts
    if decisions < FEWEST_DECISIONS:
        print(f"{chosen.name} has {decisions} decisions: choose a module with at least {FEWEST_DECISIONS}\n")
    return {
        "module": chosen.name,
        "corpus": corpus,
        "clang": inner.toolchain.version_text,
        "decisions": decisions,
        "repetitions": repetitions,
        "contenders": {name: summary(found, runs, decisions) for name, found in runs.items()},
    }


def summary(found: list[Run], runs: dict[str, list[Run]], decisions: int) -> dict[str, object]:
    """Return the medians of one contender's runs, and how they compare."""

    def median(of: list[Run], field: str) -> float:
        return statistics.median(float(getattr(run, field)) for run in of)

    plain, loop = runs["plain clang"], runs["smallest host loop"]
    result: dict[str, object] = {"runs": [run._asdict() for run in found]}
    for field in ("seconds", "host_seconds", "all_seconds"):
        result[field] = median(found, field)
    for field, label in (("seconds", ""), ("all_seconds", "processor_")):
        result[f"{label}added_ms_per_decision"] = 1000 * (median(found, field) - median(plain, field)) / decisions
        result[f"{label}ratio_to_plain_clang"] = median(found, field) / median(plain, field)
        result[f"{label}ratio_to_smallest_loop"] = median(found, field) / median(loop, field)
    return result


def show(result: dict[str, object]) -> bool:
    """Print the table; return whether the targets are met."""
    print(
        f"{result['corpus']}: {result['module']}, {result['decisions']} decisions, clang {result['clang']}, "
        f"median of {result['repetitions']}\n"
    )
    contenders = result["contenders"]
    assert isinstance(contenders, dict)
    for label, title in (("", "by the clock"), ("processor_", "processor time of host and clang")):
        print(f"{title:<34}{'ms':>9}{'added per decision':>21}{'to plain':>10}{'to smallest loop':>18}")
        for name, row in contenders.items():
            print(
                f"  {name:<32}{1000 * row['all_seconds' if label else 'seconds']:>9.1f}"
                f"{row[f'{label}added_ms_per_decision']:>18.4f} ms{row[f'{label}ratio_to_plain_clang']:>10.3f}"
                f"{row[f'{label}ratio_to_smallest_loop']:>18.3f}"
            )
        print()
    ours = contenders["mlgo/Inline-v0"]
    met = bool(ours["added_ms_per_decision"] <= MOST_ADDED_MS and ours["ratio_to_smallest_loop"] <= MOST_RATIO)
    print(
        f"targets, by the clock: at most {MOST_ADDED_MS:.2f} ms added per decision, "
        f"at most {MOST_RATIO} times the smallest loop: " + ("met" if met else "missed")
    )
    return met


def main() -> None:
    """Read the command line, measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--corpus", default="zstd", help="any corpus of mlgo-gym (default: zstd)")
    parser.add_argument("--module", help="a module of it (default: the largest)")
    parser.add_argument("--clang", help="a path or a name on PATH (default: $MLGO_CLANG, else the bundled one)")
    parser.add_argument("--repetitions", type=int, default=15, help="compiles per contender (default: 15)")
    parser.add_argument("--output", type=Path, default=Path("runs/step_overhead.json"), help="where to write JSON")
    options = parser.parse_args()
    try:
        result = compare(options.corpus, options.module, options.clang, options.repetitions)
    except MlgoError as error:
        raise SystemExit(str(error)) from None
    met = show(result)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
