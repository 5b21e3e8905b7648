"""Episodes of one function that end with it and start from copies, against compiles of the whole module, in one run.

    python benchmarks/function_episodes.py --corpus zstd --json runs/function_episodes.json

*Sampled*: modules and functions are drawn as a learner's `reset()` draws them. *Repeated*: each of some functions again
and again. Every episode is played three ways in turn, with clang's own choices as far as the task knows them: the whole
module compiled, as it must be where the reward is a size; a fresh clang that is ended with the function; and a copy of
one that waits. What they tell of the function is compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

from mlgo_gym.env import CompilerEnv

ENVIRONMENTS = ("mlgo/RegAllocEvict-v0", "mlgo/RegAllocPriority-v0")

WAYS: dict[str, dict[str, Any]] = {
    "whole": {"reward": "relative", "metric": "text_size"},
    "ended": {"warm_resets": False},
    "copied": {},
}

TOLD = ("module", "context", "decisions", "spill_cost", "spill_count", "baseline_spill_cost", "functions")


def play(env: CompilerEnv, seed: int | None, options: dict[str, Any] | None) -> tuple[float, dict[str, Any]]:
    """Return the seconds of an episode and what it told of its function."""
    start = time.perf_counter()
    _, info = env.reset(seed=seed, options=options)
    over = False
    while not over:
        _, _, terminated, truncated, info = env.step(info["default_action"])
        over = terminated or truncated
    assert not truncated, info
    return time.perf_counter() - start, {name: info[name] for name in TOLD}


def measure(name: str, corpus: str, episodes: int, functions: int, repetitions: int) -> dict[str, Any]:
    """Time the episodes of one environment all three ways."""
    envs: dict[str, CompilerEnv] = {}
    for way, extra in WAYS.items():
        made = gym.make(name, corpus=corpus, scope="function", disable_env_checker=True, **extra).unwrapped
        assert isinstance(made, CompilerEnv)
        envs[way] = made
    one = envs["whole"]
    # What is done once per module, its optimised bitcode, its baseline and the count of its decisions, is done here.
    modules = [module for module in one.corpus if one.decisions(module)]
    for module in modules:
        play(one, None, {"module": module.name})

    def turn(times: dict[str, float], seed: int | None, options: dict[str, Any] | None) -> dict[str, Any]:
        told = []
        for way, env in envs.items():
            seconds, found = play(env, seed, options)
            times[way] += seconds
            told.append(found)
        assert told[0] == told[1] == told[2], told
        return told[0]

    sampled = dict.fromkeys(WAYS, 0.0)
    drawn = [turn(sampled, seed, None) for seed in range(episodes)]
    repeated = dict.fromkeys(WAYS, 0.0)
    # Functions of all sizes of modules, not one of each: the place of a function matters too.
    chosen = {(each["module"], each["context"]): None for each in drawn}
    for module_name, function in list(chosen)[:functions]:
        options = {"module": module_name, "function": function}
        play(envs["copied"], None, options)
        for _ in range(repetitions):
            turn(repeated, None, options)
    for env in envs.values():
        env.close()
    counts = {"sampled": episodes, "repeated": repetitions * min(functions, len(chosen))}
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="zstd")
    parser.add_argument("--episodes", type=int, default=150, help="sampled episodes")
    parser.add_argument("--functions", type=int, default=16, help="functions that are repeated")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    print(f"Episodes per second, {arguments.corpus}; in brackets: times as many as with whole modules")
    print(f"{'':38} {'whole module':>14} {'fresh, ended':>18} {'copied, ended':>18}")
    rows = []
    for name in ENVIRONMENTS:
        row = measure(name, arguments.corpus, arguments.episodes, arguments.functions, arguments.repetitions)
        rows.append(row)
        for label in ("sampled", "repeated"):
            speed, ratio = row[label]["episodes_per_second"], row[label]["faster_than_whole"]
            cells = [f"{speed[way]:8.1f} ({ratio[way]:5.1f} x)" for way in ("ended", "copied")]
            print(f"{name + ', ' + label:38} {speed['whole']:14.1f} {cells[0]:>18} {cells[1]:>18}", flush=True)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps({"corpus": arguments.corpus, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
