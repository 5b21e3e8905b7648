"""Speed of register-allocation episodes: of one function against whole modules, and from bitcode optimised once.

    python -m benchmarks.allocation_episodes functions --corpus zstd --json runs/function_episodes.json
    python -m benchmarks.allocation_episodes modules --corpus zstd --json runs/preoptimized_episodes.json

All episodes follow clang's own choices, and what is compared takes turns.

`functions` prints episodes per second in three ways: the whole module compiled; a fresh clang that ends with the
function; a copy of a waiting clang that ends with the function. *Sampled* functions are drawn as `reset()` draws them,
*repeated* ones are played again and again. The infos must be equal. `modules` prints seconds per episode from optimised
bitcode and by full compiles, for the largest modules, and whether plain compiles of both give the same object.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

from benchmarks.measuring import Table, command_line, cpu_seconds, play_default, write_json
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus.module import Module
from mlgo_gym.env import CompilerEnv

EVICTION, PRIORITY = "mlgo/RegAllocEvict-v0", "mlgo/RegAllocPriority-v0"
TIMEOUT = 300.0

WAYS: dict[str, dict[str, Any]] = {
    "whole": {"metric": "text"},
    "ended": {"compile_options": {"fork_resets": False}},
    "copied": {},
}
"""Environment arguments of each way to run an episode of one function."""

PREOPTIMIZE = {"full": False, "once": True}
"""The compile option of full compiles, and of episodes from bitcode that was optimised once."""

COMPARED = ("module", "context", "decisions", "spill_cost", "spill_count", "baseline_spill_cost", "functions")
"""Entries of the last info that must be equal."""


def make(name: str, corpus: str, **arguments: Any) -> CompilerEnv:
    """Return an environment without wrappers."""
    env = gym.make(name, corpus=corpus, disable_env_checker=True, **arguments).unwrapped
    assert isinstance(env, CompilerEnv)
    return env


def timed(env: CompilerEnv, seed: int | None = None, **options: Any) -> tuple[float, float, dict[str, Any]]:
    """Return the seconds of an episode, its CPU seconds and its last info."""
    start, cpu = time.perf_counter(), cpu_seconds()
    info = play_default(env, seed, **options)
    return time.perf_counter() - start, cpu_seconds() - cpu, info


def compare_functions(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Time the episodes of one environment in all three ways."""
    envs = {way: make(name, options.corpus, scope="function", **extra) for way, extra in WAYS.items()}
    whole = envs["whole"]
    # Fill the caches: optimised bitcode, baselines, numbers of decisions.
    for module in [module for module in whole.corpus if whole.decisions(module)]:
        play_default(whole, module=module.name)

    def play(times: dict[str, float], seed: int | None, **start: Any) -> dict[str, Any]:
        infos = []
        for way, env in envs.items():
            seconds, _, info = timed(env, seed, **start)
            times[way] += seconds
            infos.append({key: info[key] for key in COMPARED})
        assert infos[0] == infos[1] == infos[2], infos
        return infos[0]

    sampled, repeated = dict.fromkeys(WAYS, 0.0), dict.fromkeys(WAYS, 0.0)
    drawn = [play(sampled, seed) for seed in range(options.episodes)]
    chosen = list(dict.fromkeys((each["module"], each["context"]) for each in drawn))
    for module_name, function in chosen[: options.functions]:
        play_default(envs["copied"], module=module_name, function=function)
        for _ in range(options.repetitions):
            play(repeated, None, module=module_name, function=function)
    for env in envs.values():
        env.close()
    counts = {"sampled": options.episodes, "repeated": options.repetitions * min(options.functions, len(chosen))}
    return {
        "environment": name,
        "functions_drawn": len(chosen),
        "median_decisions": statistics.median(each["decisions"] for each in drawn),
        **{
            label: {
                "episodes": counts[label],
                "episodes_per_second": {way: counts[label] / times[way] for way in WAYS},
                "faster_than_whole": {way: times["whole"] / times[way] for way in WAYS},
            }
            for label, times in (("sampled", sampled), ("repeated", repeated))
        },
    }


def functions(options: argparse.Namespace) -> dict[str, Any]:
    """Measure and print the episodes of one function."""
    print(f"episodes per second, {options.corpus}; ratios to whole modules")
    table = Table(
        {"": "<36", "whole": ">8.1f", "ended": ">8.1f", "ratio": ">6.1f", "copied": ">8.1f", "ratio ": ">6.1f"}
    )
    rows = []
    for name in (EVICTION, PRIORITY):
        rows.append(compare_functions(name, options))
        for label in ("sampled", "repeated"):
            speed, ratio = rows[-1][label]["episodes_per_second"], rows[-1][label]["faster_than_whole"]
            cells = (speed["ended"], ratio["ended"], speed["copied"], ratio["copied"])
            table.row(f"{name}, {label}", speed["whole"], *cells)
    return {"corpus": options.corpus, "rows": rows}


def plain_object(env: CompilerEnv, module: Module) -> bytes:
    """Return the object of a plain compile."""
    with Session(env.compilation(module).command) as session:
        return session.finish(TIMEOUT).object_bytes


def modules(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure and print the episodes of whole modules."""
    fixed = {"fork_resets": False, "timeout": TIMEOUT}
    envs = {
        kind: make(EVICTION, options.corpus, clang=options.clang, compile_options={"preoptimize": value, **fixed})
        for kind, value in PREOPTIMIZE.items()
    }
    titles = {"module": "<36", "bitcode": ">9", "decisions": ">9", "full s": ">8.3f", "once s": ">8.3f"}
    titles |= {
        "ratio": ">6.2f",
        "full CPU s": ">10.3f",
        "once CPU s": ">10.3f",
        "CPU ratio": ">9.2f",
        "same object": ">11",
    }
    table, rows = Table(titles), []
    for module in [*envs["once"].corpus.sorted_by_size(descending=True)][: options.largest]:
        if not envs["once"].decisions(module):
            continue
        runs: dict[str, list[tuple[float, float, dict[str, Any]]]] = {kind: [] for kind in PREOPTIMIZE}
        for _ in range(options.rounds + 1):
            for kind, env in envs.items():
                runs[kind].append(timed(env, module=module.name))
        # The first episode of each kind fills the caches.
        seconds = {kind: statistics.median(run[0] for run in runs[kind][1:]) for kind in PREOPTIMIZE}
        cpu = {kind: statistics.median(run[1] for run in runs[kind][1:]) for kind in PREOPTIMIZE}
        decisions = {run[2]["decisions"] for kind in PREOPTIMIZE for run in runs[kind]}
        row = {
            "module": module.name,
            "bitcode_bytes": module.bitcode.stat().st_size,
            "decisions": max(decisions),
            "full_seconds": seconds["full"],
            "once_seconds": seconds["once"],
            "speedup": seconds["full"] / seconds["once"],
            "full_cpu_seconds": cpu["full"],
            "once_cpu_seconds": cpu["once"],
            "cpu_speedup": cpu["full"] / cpu["once"],
            "identical": len(decisions) == 1 and len({plain_object(env, module) for env in envs.values()}) == 1,
        }
        rows.append(row)
        table.row(*row.values())
    for label, key in (("by the clock", "speedup"), ("in CPU time", "cpu_speedup")):
        print(f"geometric mean {label}: {statistics.geometric_mean(row[key] for row in rows):.2f}")
    return rows


def main() -> None:
    """Measure, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("compare", choices=("functions", "modules"))
    parser.add_argument("--corpus", default="zstd", help="any corpus of mlgo-gym (default: zstd)")
    parser.add_argument("--json", type=Path, help="JSON file to write")
    group = parser.add_argument_group("functions")
    group.add_argument("--episodes", type=int, default=150, help="sampled episodes (default: 150)")
    group.add_argument("--functions", type=int, default=16, help="functions that are repeated (default: 16)")
    group.add_argument("--repetitions", type=int, default=5, help="episodes of each of these (default: 5)")
    group = parser.add_argument_group("modules")
    group.add_argument("--clang", default="bundled", help="the compiler (default: the bundled one)")
    group.add_argument("--largest", type=int, default=8, help="number of modules, the largest first (default: 8)")
    group.add_argument("--rounds", type=int, default=5, help="episodes of each kind (default: 5)")
    options = parser.parse_args()
    write_json(options.json, functions(options) if options.compare == "functions" else modules(options))


if __name__ == "__main__":
    main()
