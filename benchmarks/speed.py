"""Speed of the environments, against a plain compile, the smallest host loop, and Gymnasium's vector environments.

    python -m benchmarks.speed [--modules 20] [--output docs/results/speed.json]

- Episodes: each environment with clang's own choices on modules with at least 200 decisions. A plain compile of the
  same input is a process. The smallest host loop answers the same advice by blocking reads of the same pipes. With the
  answers in a file clang waits for nobody, so the rest is its own work on features. CPU times are those of clang and of
  this process, relative to clang's in a plain compile; other programs change them less than durations.
- Vectors: steps per second of four environments, which take the same episodes in the same order.
- Policies: microseconds of `act()` on recorded decisions.
- Start: seconds of new processes with warm caches.

All take turns in one run, so ratios hold on a noisy machine. Ratios of episodes are medians over modules with the
smallest and the largest; each module's is that of the medians of its repetitions.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.measuring import RESULTS, Table, command_line, cpu_seconds, own_decisions, play_default, write_json
from mlgo_clang.files import scratch_parent
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.env import CompilerEnv
from mlgo_gym.llvm.advisors import EVICTION, INLINING, PRIORITY, Advisor
from mlgo_gym.llvm.training_log import LogHeader
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.vector_env import as_vector

INLINE = "mlgo/Inline-v0"
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "Inline": (INLINE, {}),
    "Inline, callee features": (INLINE, {"callee_features": True}),
    "Inline, credit": (INLINE, {"credit": True}),
    "Inline, code": (INLINE, {"ir": True}),
    "Inline, graphs": (INLINE, {"observation": "graph"}),
    "RegAllocEvict": ("mlgo/RegAllocEvict-v0", {}),
    "RegAllocPriority": ("mlgo/RegAllocPriority-v0", {}),
    "Joint": ("mlgo/Joint-v0", {}),
}
LOOPS = {"Inline": INLINING, "RegAllocEvict": EVICTION, "RegAllocPriority": PRIORITY}
"""Advisors of the forms with one channel."""

POLICIES: dict[str, dict[str, Any]] = {"threshold:5": {}, "last-call": {"callee_features": True}}
"""Policies that are timed, with the arguments of their environment."""

PROCESSES = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
MIN_DECISIONS, NUM_ENVS, SEED = 200, 4, 7

VectorEnv = gym.vector.VectorEnv[Any, Any, Any]


def wait(pid: int) -> None:
    """Wait for a clang; raise SystemExit if it failed."""
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit(f"clang failed with status {os.waitstatus_to_exitcode(status)}")


def plain(compilation: Compilation) -> None:
    """Compile without interaction."""
    wait(os.posix_spawn(compilation.command[0], [*compilation.command, "-o", os.devnull], os.environ))


def answers_in_file(compilation: Compilation, advisor: Advisor, answers: Sequence[bytes]) -> None:
    """Compile with a regular file of answers in the place of a pipe."""
    with tempfile.TemporaryDirectory(dir=scratch_parent()) as folder:
        Path(f"{folder}/c.in").write_bytes(b"".join(answers))
        plain(replace(compilation, flags=(*compilation.flags, *advisor.flags(f"{folder}/c"))))


def smallest_loop(compilation: Compilation, advisor: Advisor, answers: Sequence[bytes]) -> None:
    """Answer the decisions of a compile in order, by blocking reads."""
    folder = tempfile.mkdtemp(dir=scratch_parent())
    base = f"{folder}/c"
    os.mkfifo(f"{base}.in")
    os.mkfifo(f"{base}.out")
    command = [*compilation.command, *advisor.flags(base), "-o", os.devnull]
    pid = os.posix_spawn(command[0], command, os.environ)
    advice, log = os.open(f"{base}.in", os.O_RDWR), os.open(f"{base}.out", os.O_RDONLY)
    remaining, data, size = iter(answers), b"", 0
    while piece := os.read(log, 65536):
        data += piece
        if not size and b"\n" in data:  # the first line has the types of the features
            size = LogHeader.parse(data.partition(b"\n")[0]).observation_bytes
        start = data.find(b'{"observation":')
        end = data.find(b"\n", start) + 1
        if start >= 0 and end and len(data) > end + size:
            os.write(advice, next(remaining))
            data = data[end + size + 1 :]
    wait(pid)
    if next(remaining, None) is not None:
        raise SystemExit("expected equal numbers of decisions in all compiles, got fewer in the host loop")
    os.close(advice)
    os.close(log)
    shutil.rmtree(folder)


def seconds(work: Callable[[], object]) -> float:
    """Return the duration of a call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def usage(work: Callable[[], object]) -> tuple[float, float, float]:
    """Return the duration of a call, and the CPU time of this process and of its children, in seconds."""
    before = [cpu_seconds((who,)) for who in PROCESSES]
    duration = seconds(work)
    host, children = (cpu_seconds((who,)) - start for who, start in zip(PROCESSES, before, strict=True))
    return duration, host, children


def own_choices(env: CompilerEnv, module: str) -> list[bytes]:
    """Return clang's own choices in a module, as the channel takes them."""
    answers = []
    for _, info in own_decisions(env, module):
        assert env._decision is not None
        answers.append(env.task.advice(env._decision, info["default_action"]))
    return answers


def hosts_of(env: CompilerEnv, module: str, advisor: Advisor | None) -> dict[str, Callable[[], object]]:
    """Return the ways to compile a module that are compared."""
    compilation = env.compilation(env.corpus.module(module))
    hosts: dict[str, Callable[[], object]] = {
        "ours": partial(play_default, env, module=module),
        "plain": partial(plain, compilation),
    }
    if advisor is not None:
        answers = own_choices(env, module)
        hosts["loop"] = partial(smallest_loop, compilation, advisor, answers)
        hosts["file"] = partial(answers_in_file, compilation, advisor, answers)
    hosts["ours"]()  # measures the baseline
    return hosts


def episodes(corpus: str, modules: int, repetitions: int) -> dict[str, Any]:
    """Return the ratios of each form: to a plain compile of the same input, and to the smallest host loop."""
    columns = {"episode": "<24", "modules": ">7", "to plain": ">8.2f", "range": ">14", "to the loop": ">11"}
    table = Table({**columns, "to a file": ">9", "CPU of clang": ">12.2f", "of the host": ">11.2f"})
    rows: dict[str, Any] = {}
    for form, (name, arguments) in FORMS.items():
        env = make_environment(name, {"corpus": corpus, **arguments})
        candidates = [module.name for module in env.with_decisions(MIN_DECISIONS)]
        chosen = random.Random(0).sample(candidates, min(modules, len(candidates)))
        ratios: dict[str, list[float]] = defaultdict(list)
        cpu: dict[str, list[float]] = defaultdict(list)
        for module in chosen:
            times: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
            hosts = hosts_of(env, module, LOOPS.get(form))
            for _ in range(repetitions):
                for host, work in hosts.items():
                    times[host].append(usage(work))
            medians = {host: np.median(runs, axis=0) for host, runs in times.items()}
            for host in hosts.keys() - {"ours"}:
                ratios[host].append(medians["ours"][0] / medians[host][0])
            for column, process in enumerate(("host", "clang"), start=1):
                cpu[process].append(medians["ours"][column] / medians["plain"][2])
        env.close()
        row = {
            host: {"median": statistics.median(values), "smallest": min(values), "largest": max(values)}
            for host, values in ratios.items()
        }
        shares = {name: statistics.median(values) for name, values in cpu.items()}
        rows[form] = {"modules": len(chosen), **row, "cpu": shares}
        span = f"{row['plain']['smallest']:.2f} to {row['plain']['largest']:.2f}"
        others = (f"{row[host]['median']:.2f}" if host in row else "" for host in ("loop", "file"))
        table.row(form, len(chosen), row["plain"]["median"], span, *others, shares["clang"], shares["host"])
    print()
    return rows


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
    "ours, `send` and `recv`": ("vector_entry_point", send_and_receive),
    "ours, `step`": ("vector_entry_point", lock_step),
    "SyncVectorEnv": ("sync", lock_step),
    "AsyncVectorEnv": ("async", lock_step),
}


def vectors(corpus: str, steps: int, repetitions: int) -> dict[str, dict[str, Any]]:
    """Return the steps per second of each kind, and their ratio to AsyncVectorEnv."""
    times: dict[str, list[float]] = {name: [] for name in KINDS}
    finished = {}
    for _ in range(repetitions):
        for name, (mode, play) in KINDS.items():
            vector = gym.make_vec(INLINE, NUM_ENVS, corpus=corpus, vectorization_mode=mode)
            duration, finished[name] = play(vector, steps)
            vector.close()
            times[name].append(duration)
    if len(set(finished.values())) != 1:
        raise SystemExit(f"expected equal numbers of episodes, got {finished}")
    table = Table({"environments": "<24", "steps/s": ">8.0f", "to AsyncVectorEnv": ">17.2f"})
    rows = {}
    for name, values in times.items():
        pairs = zip(times["AsyncVectorEnv"], values, strict=True)
        rows[name] = {
            "steps_per_second": NUM_ENVS * steps / statistics.median(values),
            "to_async": statistics.median(other / ours for other, ours in pairs),
        }
        table.row(name, *rows[name].values())
    print()
    return rows


def policies(corpus: str, repetitions: int) -> dict[str, float]:
    """Return the median microseconds of `act()` of each policy, over recorded decisions."""
    table = Table({"policy": "<24", "microseconds": ">12.1f"})
    rows = {}
    for name, arguments in POLICIES.items():
        env = make_environment(INLINE, {"corpus": corpus, **arguments})
        policy = load_policy(name, env)
        module = next(iter(env.with_decisions(MIN_DECISIONS))).name
        decisions = list(own_decisions(env, module))

        def act_all(policy: Any = policy, decisions: Any = decisions) -> None:
            for observation, info in decisions:
                policy.act(observation, info)

        passes = [seconds(act_all) / len(decisions) for _ in range(1 + 5 * repetitions)]
        rows[name] = 1e6 * statistics.median(passes[1:])
        env.close()
        table.row(name, rows[name])
    print()
    return rows


STARTS = {
    "`import gymnasium`": ["-c", "import gymnasium"],
    "`import mlgo_gym`": ["-c", "import mlgo_gym"],
    "`mlgo-gym --help`": [str(Path(sys.executable).with_name("mlgo-gym")), "--help"],
    "first `reset()` of `builtin`": [
        "-c",
        f"import gymnasium, mlgo_gym; gymnasium.make('{INLINE}').reset(options={{'module': 'c/raster'}})",
    ],
}


def starts(repetitions: int) -> dict[str, float]:
    """Return the median seconds of new processes."""
    times: dict[str, list[float]] = {name: [] for name in STARTS}
    for _ in range(1 + 3 * repetitions):
        for name, words in STARTS.items():
            command = [sys.executable, *words]
            times[name].append(seconds(partial(subprocess.run, command, check=True, stdout=subprocess.DEVNULL)))
    table = Table({"start": "<30", "seconds": ">8.2f"})
    rows = {name: statistics.median(values[1:]) for name, values in times.items()}
    for name, duration in rows.items():
        table.row(name, duration)
    return rows


def main() -> None:
    """Measure, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--corpus", default="builtin", help="any corpus of mlgo-gym (default: builtin)")
    parser.add_argument("--modules", type=int, default=20, help="modules per environment (default: 20)")
    parser.add_argument("--repetitions", type=int, default=3, help="rounds of each comparison (default: 3)")
    parser.add_argument("--steps", type=int, default=1000, help="steps of each environment of a vector (default: 1000)")
    parser.add_argument("--output", type=Path, default=RESULTS / "speed.json", help="JSON file to write")
    options = parser.parse_args()
    result = {
        "corpus": options.corpus,
        "episodes": episodes(options.corpus, options.modules, options.repetitions),
        "vectors": vectors(options.corpus, options.steps, options.repetitions),
        "policies": policies(options.corpus, options.repetitions),
        "starts": starts(options.repetitions),
    }
    write_json(options.output, result)


if __name__ == "__main__":
    main()
