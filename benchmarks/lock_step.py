"""Why environments in lock step wait, and what could be gained: a model of their schedule from measured compiles.

    python benchmarks/lock_step.py --compiles runs/compiles.json --json runs/lock_step.json

In lock step every environment waits for the slowest, so what counts is not only how much clang computes but when. Each
module is compiled once with clang's own choices, and the processor time before its first decision, between decisions
and after the last one is read from the kernel; `--compiles` keeps that. Then the steps of several environments are
replayed on two cores, which clangs share equally, with other rules for when the next episodes are started and which
modules come beside each other. Processor time hardly depends on what else the machine does, so neither do the ratios.
"""

from __future__ import annotations

import argparse
import json
import resource
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import mlgo_gym

ENVIRONMENT = "mlgo/Inline-v0"
CORES = 2
HOST_SECONDS = 0.00025
"""What the host takes for a decision of one environment, its agent included."""


@dataclass(frozen=True, slots=True)
class Compile:
    """The processor seconds of one compile: to its first decision, between decisions, after the last one."""

    front: float
    gaps: tuple[float, ...]
    tail: float


def running(pids: set[int]) -> float:
    """Return the processor seconds of some processes so far (proc_pid_schedstat)."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9 for pid in pids)


def children() -> set[int]:
    """Return the processes that this one has started and that are still there."""
    return {int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


def reaped() -> float:
    """Return the processor seconds of the children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(corpus: str, most: int, limit: int, path: Path) -> dict[str, Compile]:
    """Compile modules with at most `most` decisions until `limit` are known; each is kept as soon as it is measured."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    env: Any = gym.make(ENVIRONMENT, corpus=corpus).unwrapped
    for name in np.random.default_rng(0).permutation(env.corpus.names).tolist():
        module = env.corpus.module(name)
        if len(kept) >= limit:
            break
        if module.name in kept or not 0 < sum(env.decisions(module).values()) <= most:
            continue
        env.reset(options={"module": module.name})
        env.close()  # whatever is made only once is made now
        before = reaped()
        _, info = env.reset(options={"module": module.name})
        clang = children()
        times = [running(clang)]
        while True:
            *_, terminated, truncated, info = env.step(info["default_action"])
            if terminated or truncated:
                break
            times.append(running(clang))
        gaps = np.diff(times).tolist()
        tail = max(reaped() - before - times[-1], 0.0)
        kept[module.name] = {"front": times[0], "gaps": gaps, "tail": tail}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(kept))
    return {name: Compile(times["front"], tuple(times["gaps"]), times["tail"]) for name, times in sorted(kept.items())}


@dataclass(slots=True)
class Job:
    """What a clang has still to compute until somebody is to be told, and whom to tell."""

    left: float
    kind: str
    done: Callable[[], None]


@dataclass(slots=True)
class Early:
    """The next episode of an environment, which was started early."""

    compiled: Compile
    job: Job
    ready: bool = False


@dataclass(slots=True)
class Row:
    """One environment: its episode, how far that is, and what was started early."""

    compiled: Compile | None = None
    position: int = 0
    ready: bool = False
    early: list[Early] = field(default_factory=list)
    awaited: Early | None = None


class Schedule:
    """The steps of environments in lock step.

    Args:
        compiles: the modules' compiles.
        rows: how many environments.
        prefetch: how many episodes each starts early.
        start: when: `"at once"`, as an episode begins; `"idle"`, when a core has nothing to do; or `"background"`, as
            an episode begins, but on cores that nobody else wants.
        together: whether all environments take the same modules in the same order.
        apart: whether each takes modules of its own length, the first the shortest.
        spread: by which part episodes of one module differ in their number of decisions.
        budget: as `max_decisions`, and modules with fewer decisions are left out.
        staggered: whether the first episodes end after any number of decisions within the budget.
        seed: which modules come.
    """

    def __init__(
        self,
        compiles: list[Compile],
        rows: int,
        *,
        prefetch: int = 1,
        start: str = "at once",
        together: bool = False,
        apart: bool = False,
        spread: float = 0.1,
        budget: int | None = None,
        staggered: bool = False,
        seed: int = 0,
    ) -> None:
        self._prefetch, self._start, self._spread = prefetch, start, spread
        if budget is not None:
            compiles = [compiled for compiled in compiles if len(compiled.gaps) >= budget]
        ordered = sorted(compiles, key=lambda compiled: len(compiled.gaps))
        cuts = [number * len(ordered) // rows for number in range(rows + 1)]
        self._compiles = [ordered[low:high] if apart else compiles for low, high in pairwise(cuts)]
        self._modules = [np.random.default_rng([seed, 0 if together else number]) for number in range(rows)]
        self._lengths = [np.random.default_rng([seed, 1, number]) for number in range(rows)]
        first = np.random.default_rng([seed, 2])
        self._budgets = [None if budget is None else int(first.integers(budget)) + 1 for _ in range(rows)]
        if not staggered:
            self._budgets = [budget] * rows
        self._budget = budget
        self.rows = [Row() for _ in range(rows)]
        self.jobs: list[Job] = []
        self.spent = dict.fromkeys(("a tail alone", "a decision alone", "two or more"), 0.0)

    def _draw(self, number: int) -> Compile:
        compiles = self._compiles[number]
        drawn = compiles[self._modules[number].integers(len(compiles))]
        budget, self._budgets[number] = self._budgets[number], self._budget
        if budget is not None:
            return Compile(drawn.front, drawn.gaps[: budget - 1], sum(drawn.gaps[budget - 1 :]) + drawn.tail)
        length = round(len(drawn.gaps) * (1 + self._spread * self._lengths[number].uniform(-1, 1)))
        return Compile(drawn.front, tuple(np.resize(drawn.gaps, length)) if drawn.gaps else (), drawn.tail)

    def _start_early(self, number: int) -> None:
        row, compiled = self.rows[number], self._draw(number)

        def done() -> None:
            early.ready = True
            if row.awaited is early:
                self._begin(number, early)

        early = Early(compiled, Job(compiled.front, "early", done))
        row.early.append(early)
        self.jobs.append(early.job)

    def _begin(self, number: int, early: Early) -> None:
        row = self.rows[number]
        row.compiled, row.position, row.ready, row.awaited = early.compiled, 0, True, None
        while self._start != "idle" and len(row.early) < self._prefetch:
            self._start_early(number)

    def _answer(self, number: int) -> None:
        row = self.rows[number]
        row.ready = False

        def done() -> None:
            row.ready = True

        if row.compiled is None:
            if not row.early:
                self._start_early(number)
            early = row.early.pop(0)
            if early.ready:
                self._begin(number, early)
            else:
                early.job.kind, row.awaited = "decision", early
        elif row.position < len(row.compiled.gaps):
            self.jobs.append(Job(row.compiled.gaps[row.position], "decision", done))
            row.position += 1
        else:
            self.jobs.append(Job(row.compiled.tail, "tail", done))
            row.compiled = None

    def _advance(self) -> float:
        """Let the clangs compute until one of them is done, and return how long that took."""
        if self._start == "idle":
            while len(self.jobs) < CORES and any(len(row.early) < self._prefetch for row in self.rows):
                self._start_early(min(range(len(self.rows)), key=lambda number: len(self.rows[number].early)))
        first = [job for job in self.jobs if job.kind != "early"]
        behind = [job for job in self.jobs if job.kind == "early"]
        groups = [(first, CORES), (behind, max(CORES - len(first), 0))]
        if self._start != "background":
            groups = [(self.jobs, CORES)]
        speeds = {id(job): min(1.0, cores / len(group)) for group, cores in groups for job in group}
        seconds = min(job.left / speeds[id(job)] for job in self.jobs if speeds[id(job)] > 0)
        alone = f"a {first[0].kind} alone" if len(first) == 1 else "two or more"
        self.spent[alone] += seconds
        for job in self.jobs:
            job.left -= seconds * speeds[id(job)]
        finished = [job for job in self.jobs if job.left <= 1e-12]
        self.jobs = [job for job in self.jobs if job.left > 1e-12]
        for job in finished:
            job.done()
        return seconds

    def run(self, steps: int) -> float:
        """Return the seconds of some steps."""
        seconds = 0.0
        for step in range(steps + 1):
            if step == 1:
                seconds, self.spent = 0.0, dict.fromkeys(self.spent, 0.0)  # the reset does not count
            seconds += HOST_SECONDS * len(self.rows)
            for number in range(len(self.rows)):
                self._answer(number)
            while not all(row.ready for row in self.rows):
                seconds += self._advance()
        return seconds


RULES: dict[str, dict[str, Any]] = {
    "4 environments, as they are": {"rows": 4},
    "nothing started early": {"rows": 4, "prefetch": 0},
    "two episodes started early": {"rows": 4, "prefetch": 2},
    "started when a core is idle": {"rows": 4, "start": "idle"},
    "started in the background": {"rows": 4, "start": "background"},
    "the same modules in all": {"rows": 4, "together": True},
    "... with equally many decisions": {"rows": 4, "together": True, "spread": 0.0},
    "short modules beside long ones": {"rows": 4, "apart": True},
    "max_decisions=40, begun together": {"rows": 4, "budget": 40},
    "max_decisions=40, at any time": {"rows": 4, "budget": 40, "staggered": True},
    "2 environments": {"rows": 2},
    "8 environments": {"rows": 8},
    "16 environments": {"rows": 16},
}


def main() -> None:
    """Measure the compiles, replay them under each rule, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="builtin,zstd")
    parser.add_argument("--most", type=int, default=150, help="decisions of a module; larger ones are left out")
    parser.add_argument("--limit", type=int, default=20, help="modules, drawn at random")
    parser.add_argument("--compiles", type=Path, default=Path("runs/compiles.json"), help="what was measured")
    parser.add_argument("--decisions", type=int, default=10_000, help="of all environments together")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    compiles = list(measure(options.corpus, options.most, options.limit, options.compiles).values())
    if not compiles:
        parser.error(f"no module of {options.corpus} has 1 to {options.most} decisions")
    parts = [sum(times) for times in zip(*((each.front, sum(each.gaps), each.tail) for each in compiles), strict=True)]
    shares = {name: part / sum(parts) for name, part in zip(("front", "decisions", "tail"), parts, strict=True)}
    print(f"{len(compiles)} modules; before the first decision {shares['front']:.0%} of a compile, then ", end="")
    print(f"{shares['decisions']:.0%} to the last one, {shares['tail']:.0%} after it")
    kinds = ("a tail alone", "a decision alone", "two or more")
    print(f"{'':32} {'decisions/s':>11} {'ratio':>6}  " + " ".join(f"{kind:>16}" for kind in kinds))
    rows: dict[str, Any] = {}
    for name, rule in RULES.items():
        seconds, spent = 0.0, dict.fromkeys(kinds, 0.0)
        for seed in range(options.seeds):
            schedule = Schedule(compiles, **rule, seed=seed)
            seconds += schedule.run(options.decisions // rule["rows"])
            spent = {key: spent[key] + schedule.spent[key] for key in spent}
        rate = options.seeds * options.decisions / seconds
        ratio = rate / next(iter(rows.values()))["decisions_per_second"] if rows else 1.0
        rows[name] = {"decisions_per_second": rate, "ratio": ratio} | {key: spent[key] / seconds for key in spent}
        times = " ".join(f"{spent[kind] / seconds:16.0%}" for kind in kinds)
        print(f"{name:32} {rate:11.0f} {ratio:6.2f}  {times}", flush=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        result = {
            "mlgo_gym": mlgo_gym.__version__,
            "corpus": options.corpus,
            "modules": len(compiles),
            "shares_of_a_compile": shares,
            "rules": rows,
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
