"""Episodes per second of the vector environment, against bare hosts and Gymnasium's vector environments.

    python -m benchmarks.vector_throughput --json runs/vector_throughput.json

Prints two comparisons; each is repeated, and what is compared takes turns:

* Playlist: every module once, with clang's own choices. The bare host is a C program, two at a time under `xargs -P2`.
  The vector environment uses `async_reset`, `send` and `recv`, alone and with a policy network in the loop (a 64x64 MLP
  in NumPy whose output is not used).
* Equal seeds: the same episodes in the same order, for a number of steps of each environment. Compared are the vector
  environment through `send` and `recv`, the same in lock step with `step`, SyncVectorEnv and AsyncVectorEnv.
"""

from __future__ import annotations

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

from benchmarks.measuring import Table, command_line, write_json
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.vector_env import CompilerVectorEnv, as_vector

ENVIRONMENT = "mlgo/Inline-v0"
SEED = 7
VectorEnv = gym.vector.VectorEnv[Any, Any, Any]


class Network:
    """A 64x64 multilayer perceptron with random weights."""

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
    source = Path(__file__).with_name("sources") / "bare_host.c"
    subprocess.run([*bundled_command("cc"), "-O2", "-o", str(program), str(source)], check=True)
    return program


def bare_hosts(env: CompilerEnv, names: list[str], host: Path) -> Callable[[], None]:
    """Return a function that compiles every module under the bare host, two at a time."""
    size = env.task.headers[0].observation_bytes

    def play() -> None:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            files = []
            for number, name in enumerate(names):
                base = f"{folder}/{number}"
                command = env.compilation(env.corpus.module(name)).command
                words = [str(host), base, str(size), *command, *env.task.advisors[0].flags(base), "-o", f"{base}.o"]
                Path(f"{base}.args").write_text("\0".join(words))
                files.append(f"{base}.args")
            script = 'exec xargs -0 -a "$1" env'  # each file holds the NUL-separated words of one command
            words = ["xargs", "-0", "-P2", "-n1", "sh", "-c", script, "sh"]
            subprocess.run(words, input="\0".join(files).encode(), check=True)

    return play


def playlist(vector: CompilerVectorEnv, names: list[str], batch: int, network: Network | None) -> Callable[[], None]:
    """Return a function that compiles every module once through the asynchronous interface."""

    def start(numbers: list[int], remaining: list[str]) -> int:
        """Start an episode in each environment as long as modules remain; return the number of episodes."""
        chosen: list[str | None] = [None] * vector.num_envs
        started = numbers[: len(remaining)]
        for number in started:
            chosen[number] = remaining.pop(0)
        if started:
            vector.async_reset(env_ids=started, options={"module": chosen})
        return len(started)

    def play() -> None:
        remaining = list(names)
        running = start(list(range(vector.num_envs)), remaining)
        while running:
            vector.batch_size = max(1, min(batch, running // 2))
            observations, _, terminations, truncations, info = vector.recv()
            assert not truncations.any()
            if network is not None:
                network(observations)
            if not terminations.any():
                vector.send(info["default_action"])
                continue
            ids, continuing = info["env_id"], ~terminations
            if continuing.any():
                vector.send(info["default_action"][continuing], ids[continuing])
            ended = ids[terminations].tolist()
            running -= len(ended) - start(ended, remaining)

    return play


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


def compare_playlists(corpus: str, envs: list[int], repetitions: int) -> dict[str, Any]:
    """Measure and print the playlists."""
    env = gym.make(ENVIRONMENT, corpus=corpus).unwrapped
    assert isinstance(env, CompilerEnv)
    names = []
    for module in env.corpus:
        compilation = env.compilation(module)
        measure_baseline(compilation, 300.0)
        if env.decisions(module):
            names.append(module.name)
    names.sort(key=lambda name: -env.corpus.size(name))
    network = Network(len(env.feature_names))

    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        players: dict[str, Callable[[], None]] = {"bare hosts": bare_hosts(env, names, build_host(Path(folder)))}
        for number in envs:
            for label, policy in (("", None), (" + network", network)):
                vector = as_vector(gym.make_vec(ENVIRONMENT, num_envs=number, corpus=corpus, autoreset_mode="Disabled"))
                players[f"vector N={number}{label}"] = playlist(vector, names, max(1, number // 2), policy)
        for _ in range(repetitions):
            for name, play in players.items():
                start = time.perf_counter()
                play()
                times.setdefault(name, []).append(time.perf_counter() - start)
    print(f"A playlist of {len(names)} modules of {corpus}; medians of {repetitions}")
    table = Table({"": "<22", "episodes/s": ">10.2f", "to bare hosts": ">13.1%"})
    rows = {}
    for name, values in times.items():
        ratio = statistics.median(bare / each for bare, each in zip(times["bare hosts"], values, strict=True))
        rate = len(names) / statistics.median(values)
        rows[name] = {"episodes_per_second": rate, "ratio_to_bare_hosts": ratio, "seconds": values}
        table.row(name, rate, ratio)
    return {"modules": len(names), "rows": rows}


def compare_seeds(corpus: str, steps: int, repetitions: int) -> dict[str, Any]:
    """Measure and print the steps from equal seeds."""
    kinds: dict[str, tuple[str, Callable[[VectorEnv, int], tuple[float, int]]]] = {
        "send and recv": ("vector_entry_point", send_and_receive),
        "step": ("vector_entry_point", lock_step),
        "SyncVectorEnv": ("sync", lock_step),
        "AsyncVectorEnv": ("async", lock_step),
    }
    times: dict[str, list[float]] = {}
    episodes = {}
    for _ in range(repetitions):
        for name, (mode, play) in kinds.items():
            envs = gym.make_vec(ENVIRONMENT, num_envs=4, corpus=corpus, vectorization_mode=mode)
            seconds, episodes[name] = play(envs, steps)
            envs.close()
            times.setdefault(name, []).append(seconds)
    assert len(set(episodes.values())) == 1, f"expected equal numbers of episodes, got {episodes}"
    print(f"\n4 environments, {steps} steps of each from equal seeds; medians of {repetitions}")
    table = Table({"": "<22", "episodes/s": ">10.2f", "steps/s": ">9.0f", "to Async": ">8.2f"})
    rows = {}
    for name, values in times.items():
        ratio = statistics.median(a / v for a, v in zip(times["AsyncVectorEnv"], values, strict=True))
        rates = episodes[name] / statistics.median(values), 4 * steps / statistics.median(values)
        keys = ("episodes_per_second", "steps_per_second", "times_async_vector_env", "seconds")
        rows[name] = dict(zip(keys, (*rates, ratio, values), strict=True))
        table.row(name, *rates, ratio)
    return {"steps": steps, "rows": rows}


def main() -> None:
    """Measure, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--corpus", default="builtin,zstd", help="any corpus of mlgo-gym (default: builtin,zstd)")
    parser.add_argument("--envs", type=int, nargs="+", default=[1, 2, 4, 8], help="numbers of environments")
    parser.add_argument("--repetitions", type=int, default=3, help="rounds of each comparison (default: 3)")
    parser.add_argument("--steps", type=int, default=1500, help="steps of each environment, from equal seeds")
    parser.add_argument("--json", type=Path, help="JSON file to write")
    options = parser.parse_args()
    seeds = compare_seeds(options.corpus, options.steps, options.repetitions)
    playlists = compare_playlists(options.corpus, options.envs, options.repetitions)
    write_json(options.json, {"corpus": options.corpus, "playlist": playlists, "equal_seeds": seeds})


if __name__ == "__main__":
    main()
