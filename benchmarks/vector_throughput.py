"""Steps per second of the vector environment, against Gymnasium's vector environments.

    python -m benchmarks.vector_throughput --corpus builtin,zstd

Four environments take the same episodes in the same order, for a number of steps of each environment. Compared are the
vector environment through `send` and `recv`, the same in lock step with `step`, SyncVectorEnv and AsyncVectorEnv. They
take turns, and medians of the ratios hold on a busy machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.measuring import Table, command_line, write_json
from mlgo_gym.vector_env import as_vector

SEED = 7
NUM_ENVS = 4
VectorEnv = gym.vector.VectorEnv[Any, Any, Any]


def lock_step(vector: VectorEnv, steps: int) -> tuple[float, int]:
    """Take `steps` steps of all environments with `step()`; return the seconds and the finished episodes."""
    _, info = vector.reset(seed=SEED)
    finished = 0
    actions = info["default_action"].copy()
    start = time.perf_counter()
    for _ in range(steps):
        _, _, terminations, truncations, info = vector.step(actions)
        finished += int((terminations | truncations).sum())
        if "default_action" in info:
            actions = np.where(info["_default_action"], info["default_action"], 0)
    return time.perf_counter() - start, finished


def send_and_receive(vector: VectorEnv, steps: int) -> tuple[float, int]:
    """Take the same steps as `lock_step()` with `send()` and `recv()`, each environment as soon as it is ready."""
    ours = as_vector(vector)
    _, info = ours.reset(seed=SEED)
    remaining = np.full(ours.num_envs, steps)
    finished = 0
    start = time.perf_counter()
    ours.send(info["default_action"], np.arange(ours.num_envs))
    while running := int((remaining > 0).sum()):
        ours.batch_size = min(max(1, ours.num_envs // 2), running)
        _, _, terminations, truncations, info = ours.recv()
        ids = info["env_id"]
        remaining[ids] -= 1
        finished += int((terminations | truncations).sum())
        continuing = remaining[ids] > 0
        if continuing.any():
            actions = info.get("default_action", np.zeros(len(ids), np.int64))
            ours.send(actions[continuing], ids[continuing])
    return time.perf_counter() - start, finished


KINDS: dict[str, tuple[str, Callable[[VectorEnv, int], tuple[float, int]]]] = {
    "ours, send and recv": ("vector_entry_point", send_and_receive),
    "ours, step": ("vector_entry_point", lock_step),
    "SyncVectorEnv": ("sync", lock_step),
    "AsyncVectorEnv": ("async", lock_step),
}


def main() -> None:
    """Measure, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--corpus", default="builtin,zstd", help="any corpus of mlgo-gym (default: builtin,zstd)")
    parser.add_argument("--repetitions", type=int, default=3, help="rounds of the comparison (default: 3)")
    parser.add_argument("--steps", type=int, default=1500, help="steps of each environment (default: 1500)")
    parser.add_argument("--json", type=Path, help="JSON file to write")
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in KINDS}
    episodes = {}
    for _ in range(options.repetitions):
        for name, (mode, play) in KINDS.items():
            envs = gym.make_vec("mlgo/Inline-v0", NUM_ENVS, corpus=options.corpus, vectorization_mode=mode)
            seconds, episodes[name] = play(envs, options.steps)
            envs.close()
            times[name].append(seconds)
    if len(set(episodes.values())) != 1:
        raise SystemExit(f"expected equal numbers of episodes, got {episodes}")
    table = Table({"four environments": "<22", "steps/s": ">9.0f", "to Async": ">8.2f"})
    rows = {}
    for name, values in times.items():
        ratio = statistics.median(a / v for a, v in zip(times["AsyncVectorEnv"], values, strict=True))
        rate = NUM_ENVS * options.steps / statistics.median(values)
        rows[name] = {"steps_per_second": rate, "times_async_vector_env": ratio, "seconds": values}
        table.row(name, rate, ratio)
    write_json(options.json, {"corpus": options.corpus, "equal_seeds": {"steps": options.steps, "rows": rows}})


if __name__ == "__main__":
    main()
