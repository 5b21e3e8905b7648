"""Hours of episodes of every kind with faults; prints whether memory, processes or files grow or remain.

    python -m benchmarks.soak --minutes 60 --output runs/soak.json

Runs every environment in `SCENARIOS`: long-lived and fresh, in vectors (in lock step, and with `send` and `recv`), with
forks, fork resets and episodes of one function. The faults between them: a clang killed during a request, damaged
bitcode, illegal actions, episodes closed early. An unexpected outcome raises.

The slope of memory, processes, descriptors, threads and scratch folders over the episodes (Theil and Sen's,
with an interval of 99 %, without the first samples) is compared with `LIMITS`. The exit status is 0 if everything is
flat and nothing remains, 1 if something grows or remains, and 2 if an interval contains its limit: run longer.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from scipy.stats import theilslopes

from benchmarks.measuring import ROOT, Table, command_line, write_json
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import CompilerError, CorpusError
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.make_env import compiler_environments
from mlgo_gym.vector_env import CompilerVectorEnv, as_vector
from tests.traces import children, scratch_folders

SMALL = ("calls", "families", "functions", "many_calls", "mixed", "pressure", "spills")
FLAGS = ("-Oz", "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c", "--target=x86_64-unknown-linux-musl")
CUT_OFF, DAMAGED = "cut-off", "damaged"
"""Names of the modules whose bitcode ends in the middle, and has an overwritten function."""

MAX_DECISIONS, NUM_ENVS, EPISODES = 25, 4, 8
WARM_UP = 0.15
"""Share of the samples that is excluded: caches and pools fill in that time."""

LIMITS = {
    "host_memory": 8.0,
    "children_memory": 32.0,
    "processes": 2.0,
    "descriptors": 2.0,
    "threads": 1.0,
    "scratch": 1.0,
}
"""Allowed growth in 10,000 episodes; memory in MiB. One descriptor left by each thousandth episode is 10."""

Info = dict[str, Any]


class Soak:
    """The environments of one id that live as long as the soak; `tally` counts events."""

    def __init__(self, env_id: str, corpus: str, chance: np.random.Generator, tally: Counter[str]) -> None:
        self.env_id, self.chance, self.tally = env_id, chance, tally
        self._arguments: dict[str, Any] = {"corpus": corpus, "max_decisions": MAX_DECISIONS, "strict": False}
        self.allocates = "RegAlloc" in env_id
        self._open: dict[str, Any] = {}

    def make(self, **arguments: Any) -> CompilerEnv:
        """Return a new environment without wrappers."""
        env = gym.make(self.env_id, **{**self._arguments, **arguments}).unwrapped
        assert isinstance(env, CompilerEnv)
        return env

    def make_vector(self, **arguments: Any) -> CompilerVectorEnv:
        """Return a new vector environment with started episodes."""
        envs = as_vector(gym.make_vec(self.env_id, NUM_ENVS, **{**self._arguments, **arguments}))
        envs.async_reset(seed=int(self.chance.integers(1 << 31)))
        return envs

    def kept(self, make: Callable[..., Any], **arguments: Any) -> Any:
        """Return the long-lived environment that `make` and the arguments give."""
        key = f"{make.__name__} {arguments}"
        if key not in self._open:
            self._open[key] = make(**arguments)
        return self._open[key]

    def action(self, env: CompilerEnv, info: Info) -> Any:
        """Return clang's own choice, a random legal action, or sometimes an illegal one."""
        kind = self.chance.random()
        if kind < 0.5:
            return info["default_action"]
        if kind < 0.98 and "action_mask" in info:
            return int(self.chance.choice(np.flatnonzero(info["action_mask"])))
        return env.action_space.sample()

    def finish(self, env: CompilerEnv, info: Info, *, default: bool = False) -> Info:
        """Run an episode to its end, perhaps by clang's own choices alone; return the last info."""
        terminated = truncated = False
        while not (terminated or truncated):
            action = info["default_action"] if default else self.action(env, info)
            *_, terminated, truncated, info = env.step(action)
            self.tally["illegal actions"] += bool(info.get("illegal_action"))
        if info["error"]:
            self.check_killed(info["error"]["exit_status"])
        return info

    def check_killed(self, status: int) -> None:
        """Check that an episode failed because this program killed a clang, which may have been any."""
        self.tally["failed"] += 1
        if status != -signal.SIGKILL or self.tally["failed"] > self.tally["clangs killed"]:
            raise AssertionError(f"{self.env_id}: exit status {status}")

    def kill(self, pid: int) -> None:
        """Kill a clang."""
        os.kill(pid, signal.SIGKILL)
        self.tally["clangs killed"] += 1

    def steps(self, vector: CompilerVectorEnv, count: int) -> int:
        """Take steps of a vector environment; return the number of episodes that ended."""
        episodes = 0
        for _ in range(count):
            _, _, terminated, truncated, infos = vector.recv()
            episodes += int((terminated | truncated).sum())
            failure = infos.get("final_info", infos).get("error", {})
            for row in np.flatnonzero(failure.get("_exit_status", ())):
                self.check_killed(int(failure["exit_status"][row]))
            actions = [vector.single_action_space.sample() for _ in terminated]
            defaults = infos.get("default_action")
            vector.send(np.asarray(actions if defaults is None or self.chance.random() < 0.2 else defaults))
        return episodes

    def close(self) -> None:
        """Close all long-lived environments."""
        for env in self._open.values():
            env.close()


def compilers() -> set[int]:
    """Return the children of this process that are compilers with a channel."""
    found = set()
    for child in children():
        with suppress(OSError):
            if b"interactive-channel-base" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.add(child)
    return found


def _episodes(soak: Soak, **arguments: Any) -> int:
    env = soak.kept(soak.make, **arguments)
    for _ in range(EPISODES):
        soak.finish(env, env.reset()[1])
    return EPISODES


def _fork_resets(soak: Soak) -> int:
    options = {"fork_resets": True, **({"preoptimize": False} if soak.allocates else {})}
    return _episodes(soak, compile_options=options)


def _forked(soak: Soak) -> int:
    original = soak.kept(soak.make)
    running: list[tuple[CompilerEnv, Info]] = [(original, original.reset()[1])]
    episodes = 0
    while running:
        env, info = running.pop(int(soak.chance.integers(len(running))))
        if len(running) < 3 and episodes < 3 and soak.chance.random() < 0.2:
            running.append((env.fork(), dict(info)))
            soak.tally["forks"] += 1
        *_, terminated, truncated, info = env.step(soak.action(env, info))
        if info.get("error"):
            soak.check_killed(info["error"]["exit_status"])
        episodes += terminated or truncated
        if not (terminated or truncated) and (env is original or soak.chance.random() > 0.02):
            running.append((env, info))
        elif env is not original:
            env.close()
    return episodes


def _fresh_vector(soak: Soak) -> int:
    with closing(soak.make_vector()) as vector:
        return soak.steps(vector, int(soak.chance.integers(1, 30)))


def _vector_killed(soak: Soak) -> int:
    vector = soak.kept(soak.make_vector)
    episodes = soak.steps(vector, 5)
    if running := compilers():
        soak.kill(int(soak.chance.choice(sorted(running))))
    return episodes + soak.steps(vector, 40)


def _killed(soak: Soak) -> int:
    env = soak.kept(soak.make, compile_options={"fork_resets": False})
    before = compilers()
    _, info = env.reset()
    (own,) = compilers() - before
    for _ in range(int(soak.chance.integers(3))):
        *_, terminated, _, info = env.step(info["default_action"])
        if terminated:
            return 1
    soak.kill(own)
    info = soak.finish(env, info, default=True)
    if not info.get("error") or info["error"]["kind"] != "signal":
        raise AssertionError(f"{soak.env_id}: expected an error after SIGKILL, got {info}")
    soak.finish(env, env.reset()[1])
    return 2


def _bad_modules(soak: Soak) -> int:
    env = soak.kept(soak.make)
    for module in (CUT_OFF, DAMAGED):
        try:
            env.reset(options={"module": module})
        except (CompilerError, CorpusError):
            soak.tally["modules refused"] += 1
        else:
            raise AssertionError(f"{soak.env_id}: expected an error for {module} bitcode, got an episode")
    soak.finish(env, env.reset()[1])
    return 1


def _ended_early(soak: Soak) -> int:
    env = soak.kept(soak.make)
    env.reset()
    with closing(soak.make()) as closed:
        _, info = closed.reset()
        closed.step(info["default_action"])
    soak.make().reset()  # and abandoned
    soak.finish(env, env.reset()[1])
    return 1


SCENARIOS: dict[str, Callable[[Soak], int]] = {
    "long-lived": _episodes,
    "functions": lambda soak: _episodes(soak, scope="function") if soak.allocates else 0,
    "fork resets": _fork_resets,
    "forked": _forked,
    "lock step": lambda soak: soak.steps(soak.kept(soak.make_vector), 80),
    "send and receive": lambda soak: soak.steps(soak.kept(soak.make_vector, batch_size=2, prefetch=2), 80),
    "same step": lambda soak: soak.steps(soak.kept(soak.make_vector, autoreset_mode="SameStep"), 80),
    "fresh vector": _fresh_vector,
    "vector, a clang killed": _vector_killed,
    "killed": _killed,
    "bad modules": _bad_modules,
    "ended early": _ended_early,
}
"""Ways to run episodes; each returns how many ended."""


def make_corpus(folder: Path) -> None:
    """Write small modules, one of the builtin corpus, and two damaged ones to a folder."""
    toolchain = find_toolchain()
    for name in SMALL:
        source = ROOT / "tests" / "programs" / f"{name}.c"
        result = toolchain.run([*FLAGS, str(source), "-o", str(folder / f"{name}.bc")])
        if result.returncode != 0:
            sys.exit(result.stderr)
    shutil.copy(open_corpus("builtin", toolchain=toolchain).module("cpp/ecs").bitcode, folder / "ecs.bc")
    bitcode = (folder / "mixed.bc").read_bytes()
    middle = len(bitcode) // 8 * 4
    (folder / f"{CUT_OFF}.bc").write_bytes(bitcode[:middle])
    (folder / f"{DAMAGED}.bc").write_bytes(bitcode[:middle] + b"\xff" * 32 + bitcode[middle + 32 :])


def take_sample(episodes: int) -> dict[str, float]:
    """Collect garbage, and return the value of each resource; the memory of children is proportional (`Pss`)."""
    gc.collect()
    processes = descendants(os.getpid())
    return {
        "episodes": episodes,
        "host_memory": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20,
        "children_memory": sum(map(proportional_kib, processes)) / 1024,
        "processes": len(processes),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "scratch": len(scratch_folders()),
    }


def descendants(pid: int) -> list[int]:
    """Return all processes below one, zombies included."""
    return [process for child in children(pid) for process in (child, *descendants(child))]


def proportional_kib(pid: int) -> int:
    """Return the memory of a process, in which a shared page counts once; 0 if it has ended."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return 0


def slopes(samples: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """Return and print the growth of each resource in 10,000 episodes after the warm-up, with a verdict."""
    steady = samples[int(len(samples) * WARM_UP) :]
    episodes = np.array([sample["episodes"] for sample in steady]) / 10_000
    columns = {"slope": ">+9.3f", "low": ">+9.3f", "high": ">+9.3f", "limit": ">6.1f", "verdict": "<10"}
    table = Table({"per 10,000 episodes": "<20", "first": ">8.1f", "last": ">8.1f", **columns})
    rows = []
    for name, limit in LIMITS.items():
        values = np.array([sample[name] for sample in steady], float)
        found = theilslopes(values, episodes, 0.99)
        slope, low, high = float(found.slope), float(found.low_slope), float(found.high_slope)
        verdict = "flat" if high <= limit else "grows" if low > limit else "undecided"
        rows.append({"name": name, "slope": slope, "low": low, "high": high, "limit": limit, "verdict": verdict})
        table.row(name, values[0], values[-1], slope, low, high, limit, verdict)
    return rows


def soak_for(minutes: float, corpus: str) -> tuple[dict[str, Any], int]:
    """Run scenarios until the time is over; return the results and the exit status."""
    chance, tally = np.random.default_rng(0), Counter[str]()
    ids = compiler_environments()
    for env_id in ids:
        gym.make(env_id, corpus=corpus).close()  # loads and measures once what every later episode reuses
    before = take_sample(0)
    soaks = [Soak(env_id, corpus, np.random.default_rng(chance.integers(1 << 63)), tally) for env_id in ids]
    items = [(scenario, soak) for soak in soaks for scenario in SCENARIOS.values()]
    samples: list[dict[str, float]] = []
    start = sampled = time.monotonic()
    while time.monotonic() - start < minutes * 60:
        scenario, soak = items[int(chance.integers(len(items)))]
        tally["episodes"] += scenario(soak)
        if time.monotonic() - sampled > max(1.0, minutes * 60 / 1000):
            sampled = time.monotonic()
            samples.append(take_sample(tally["episodes"]))
            print(f"{(sampled - start) / 60:5.1f} min", samples[-1], flush=True)
    for soak in soaks:
        soak.close()
    del soak, soaks, items
    found, after = slopes(samples), take_sample(tally["episodes"])
    remaining = {name: int(after[name] - before[name]) for name in ("processes", "descriptors", "threads", "scratch")}
    for title, numbers in (("events", dict(sorted(tally.items()))), ("remaining", remaining)):
        print(f"{title}:", ", ".join(f"{count} {name}" for name, count in numbers.items()))
    verdicts = {row["verdict"] for row in found}
    status = 1 if any(remaining.values()) or "grows" in verdicts else 2 if "undecided" in verdicts else 0
    return {"tally": dict(tally), "remaining": remaining, "slopes": found, "samples": samples}, status


def main() -> None:
    """Run the soak in a temporary folder with an empty cache."""
    parser = command_line(__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="duration (default: 60)")
    parser.add_argument("--output", type=Path, default=Path("runs/soak.json"), help="JSON file of the results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mlgo-soak-") as name:
        corpus = Path(name, "corpus")
        os.environ["MLGO_CACHE"] = f"{name}/cache"
        corpus.mkdir()
        make_corpus(corpus)
        found, status = soak_for(options.minutes, str(corpus))
    write_json(options.output, {"minutes": options.minutes, **found})
    sys.exit(status)


if __name__ == "__main__":
    main()
