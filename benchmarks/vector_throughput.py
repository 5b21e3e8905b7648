"""Episodes per second of the vector environment, against bare hosts and Gymnasium's vector environments.

    python benchmarks/vector_throughput.py --json runs/vector_throughput.json

Two comparisons, each repeated and interleaved in one run:

* A playlist: every module once, clang's own choices. The floor is the same interactive compiles by the smallest
  possible host, a C program, two at a time under `xargs -P2`. Ours plays it through `async_reset`, `send` and `recv`,
  alone and with a policy network (a 64x64 MLP in NumPy, whose output is computed and not used) in the loop.
* Equal seeds, so the same episodes in the same order, for a number of steps of each environment: by ours through `send`
  and `recv`, by ours in lock step with `step`, and by Gymnasium's SyncVectorEnv and AsyncVectorEnv over the single
  environment, which know lock step alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.episode.decision_count import count_decisions
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.vector_env import CompilerVectorEnv, as_vector

ENVIRONMENT = "mlgo/Inline-v0"

SEED = 7


class Network:
    """A 64x64 multilayer perceptron with random weights: what a learner's policy costs."""

    def __init__(self, features: int) -> None:
        generator = np.random.default_rng(0)
        shapes = ((features, 64), (64, 64), (64, 2))
        self.weights = [generator.standard_normal(shape, np.float32) / 8 for shape in shapes]

    def __call__(self, observations: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
        """Return an action for each row of `observations`, shape (batch, features)."""
        hidden = np.sign(observations) * np.log1p(np.abs(observations))
        for weights in self.weights[:-1]:
            hidden = np.tanh(hidden @ weights)
        actions: npt.NDArray[np.int64] = np.argmax(hidden @ self.weights[-1], axis=1)
        return actions


def build_host(folder: Path) -> Path:
    """Compile the bare host with the bundled compiler."""
    program = folder / "bare_host"
    source = Path(__file__).with_name("bare_host.c")
    subprocess.run([*bundled_command("cc"), "-O2", "-o", str(program), str(source)], check=True)
    return program


def floor(env: CompilerEnv, names: list[str], host: Path) -> Callable[[], None]:
    """Return what compiles every module under a bare host, two at a time."""
    size = env.task.headers[0].observation_bytes

    def play() -> None:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            lines = []
            for number, name in enumerate(names):
                base = f"{folder}/{number}"
                command = env.compilation(env.corpus.module(name)).command
                flags = env.task.advisors[0].flags(base)
                words = [str(host), base, str(size), *command, *flags, "-o", f"{base}.o"]
                lines.append("\0".join(words))
            # One NUL-separated command per line of xargs: sh gets them as its arguments.
            for number, line in enumerate(lines):
                Path(folder, f"{number}.args").write_text(line)
            script = 'exec xargs -0 -a "$1" env'
            files = "\0".join(f"{folder}/{number}.args" for number in range(len(lines)))
            subprocess.run(["xargs", "-0", "-P2", "-n1", "sh", "-c", script, "sh"], input=files.encode(), check=True)

    return play


def playlist(vector: CompilerVectorEnv, names: list[str], batch: int, network: Network | None) -> Callable[[], None]:
    """Return what plays every module once through the asynchronous interface."""

    def begin(numbers: list[int], left: list[str]) -> list[int]:
        chosen: list[str | None] = [None] * vector.num_envs
        begun = []
        for number in numbers:
            if left:
                chosen[number] = left.pop(0)
                begun.append(number)
        if begun:
            vector.async_reset(env_ids=begun, options={"module": chosen})
        return begun

    def play() -> None:
        left = list(names)
        running = len(begin(list(range(vector.num_envs)), left))
        while running:
            vector.batch_size = max(1, min(batch, running // 2))
            observations, _, terminations, truncations, info = vector.recv()
            if network is not None:
                network(observations)
            if not (terminations.any() or truncations.any()):
                vector.send(info["default_action"])
                continue
            assert not truncations.any()
            ids = info["env_id"]
            going = ~terminations
            if going.any():
                vector.send(info["default_action"][going], ids[going])
            over = ids[terminations].tolist()
            running -= len(over) - len(begin(over, left))

    return play


def lock_step(vector: gym.vector.VectorEnv[Any, Any, Any], steps: int) -> tuple[float, int]:
    """Return the seconds and the finished episodes of `steps` steps from equal seeds."""
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


def as_ready(envs: gym.vector.VectorEnv[Any, Any, Any], steps: int) -> tuple[float, int]:
    """Return the same as `lock_step()` for the same steps, each environment's taken as soon as it is ready."""
    vector = as_vector(envs)
    _, info = vector.reset(seed=SEED)
    left = np.full(vector.num_envs, steps)
    finished = 0
    start = time.perf_counter()
    vector.send(info["default_action"], np.arange(vector.num_envs))
    while under_way := int((left > 0).sum()):
        vector.batch_size = min(max(1, vector.num_envs // 2), under_way)
        _, _, terminations, truncations, info = vector.recv()
        ids = info["env_id"]
        left[ids] -= 1
        finished += int((terminations | truncations).sum())
        going = left[ids] > 0
        if going.any():
            actions = info.get("default_action", np.zeros(len(ids), np.int64))
            vector.send(actions[going], ids[going])
    return time.perf_counter() - start, finished


def compare_playlists(corpus: str, envs: list[int], repetitions: int) -> dict[str, Any]:
    """Measure and print the playlists."""
    env = gym.make(ENVIRONMENT, corpus=corpus).unwrapped
    assert isinstance(env, CompilerEnv)
    names = []
    for module in env.corpus:
        compilation = env.compilation(module)
        measure_baseline(compilation, 300.0)
        if count_decisions(compilation, env.task):
            names.append(module.name)
    names.sort(key=lambda name: -env.corpus.size(name))
    network = Network(len(env.feature_names))

    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        players: dict[str, Callable[[], None]] = {"floor": floor(env, names, build_host(Path(folder)))}
        for number in envs:
            for label, policy in (("", None), (" + network", network)):
                vector = as_vector(gym.make_vec(ENVIRONMENT, num_envs=number, corpus=corpus, autoreset_mode="Disabled"))
                players[f"ours N={number}{label}"] = playlist(vector, names, max(1, number // 2), policy)
        for _ in range(repetitions):
            for name, play in players.items():
                start = time.perf_counter()
                play()
                times.setdefault(name, []).append(time.perf_counter() - start)
    print(f"A playlist of {len(names)} modules of {corpus}; medians of {repetitions}")
    print(f"{'':22} {'episodes/s':>10}  {'of the floor':>12}")
    rows = {}
    for name, values in times.items():
        ratio = statistics.median(f / v for f, v in zip(times["floor"], values, strict=True))
        rate = len(names) / statistics.median(values)
        rows[name] = {"episodes_per_second": rate, "of_floor": ratio, "seconds": values}
        print(f"{name:22} {rate:10.2f}  {ratio:12.1%}", flush=True)
    return {"modules": len(names), "rows": rows}


def compare_seeds(corpus: str, steps: int, repetitions: int) -> dict[str, Any]:
    """Measure and print the steps from equal seeds."""

    def make(mode: str) -> gym.vector.VectorEnv[Any, Any, Any]:
        return gym.make_vec(ENVIRONMENT, num_envs=4, corpus=corpus, vectorization_mode=mode)

    kinds: dict[str, tuple[str, Callable[[gym.vector.VectorEnv[Any, Any, Any], int], tuple[float, int]]]] = {
        "ours, send and recv": ("vector_entry_point", as_ready),
        "ours, step": ("vector_entry_point", lock_step),
        "SyncVectorEnv": ("sync", lock_step),
        "AsyncVectorEnv": ("async", lock_step),
    }
    times: dict[str, list[float]] = {}
    episodes = {}
    for _ in range(repetitions):
        for name, (mode, play) in kinds.items():
            envs = make(mode)
            seconds, episodes[name] = play(envs, steps)
            envs.close()
            times.setdefault(name, []).append(seconds)
    assert len(set(episodes.values())) == 1, f"the same steps must end the same episodes, found {episodes}"
    print(f"\n4 environments, {steps} steps of each from equal seeds; medians of {repetitions}")
    print(f"{'':22} {'episodes/s':>10}  {'steps/s':>9}  {'to Async':>9}")
    rows = {}
    for name, values in times.items():
        ratio = statistics.median(a / v for a, v in zip(times["AsyncVectorEnv"], values, strict=True))
        median = statistics.median(values)
        rows[name] = {
            "episodes_per_second": episodes[name] / median,
            "steps_per_second": 4 * steps / median,
            "times_async_vector_env": ratio,
            "seconds": values,
        }
        print(f"{name:22} {episodes[name] / median:10.2f}  {4 * steps / median:9.0f}  {ratio:8.2f}x", flush=True)
    return {"steps": steps, "rows": rows}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="builtin,zstd")
    parser.add_argument("--envs", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1500, help="of each environment, from equal seeds")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    seeds = compare_seeds(arguments.corpus, arguments.steps, arguments.repetitions)
    playlists = compare_playlists(arguments.corpus, arguments.envs, arguments.repetitions)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        result = {"corpus": arguments.corpus, "playlist": playlists, "equal_seeds": seeds}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
