"""What a fork of a waiting clang costs, whether it is exact, and what it leaves behind.

    python benchmarks/fork.py --output runs/fork.json

Three parts, each a table. *Time*: forks of a waiting clang by the size of its module, against a fresh clang that is led
to the same decision with answers sent ahead, in several rounds over all sizes. *Equality*: random trees of forks; every
leaf's object must equal that of a fresh clang with the leaf's answers. *Leaks*: many forks in a row; processes,
descriptors, scratch folders and resident memory before and after.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.llvm.advisors import ADVISORS, EVICTION, INLINING, PRIORITY, Advisor
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain
from mlgo_gym.session.decision import Decision
from mlgo_gym.session.forkable_session import ForkableSession
from mlgo_gym.session.scratch import scratch_parent
from mlgo_gym.session.snapshot_support import snapshot_support

TIMEOUT = 300.0

MOST_MS = 2.0
"""The target: the median fork of a clang with less than `SMALL_MIB` of resident memory."""

SMALL_MIB = 100

SIZES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Megabytes of bitcode."""

PREFIX = 10
"""How many decisions are answered before a clang is forked for the time of it."""

ROUNDS = 5
"""How often all sizes are gone through: what else a machine does comes and goes in seconds."""

NOTHING = "/bin/true"

ROLES: dict[str, tuple[Advisor, ...]] = {
    "inlining": (INLINING,),
    "eviction": (EVICTION,),
    "priority": (PRIORITY,),
    "all": ADVISORS,
}

FUNCTION = """
static int fold{n}(int a, int b) {{ int r = {n}; for (int i = 0; i < a; i++) r += i * b ^ (r >> 3); return r; }}
int work{n}(int *p, int n) {{
  int a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7, i = 8, j = 9, k = 10, l = 11, m = 12, o = 13, q = 14;
  for (int at = 0; at < n; at++) {{
    a += p[at] * b; b ^= c + p[at + 1]; c += d * a; d -= e; e += f ^ b; f += g; g *= h; h += i;
    i ^= j; j += k; k -= l; l += m * a; m += o; o ^= q; q += a + fold{n}(b, {n});
  }}
  return a + b + c + d + e + f + g + h + i + j + k + l + m + o + q + fold{n}(a, b);
}}
"""
"""Pressure on registers and calls to decide on; a module is as many of these as its size takes."""


@dataclass(slots=True)
class Timing:
    """Forks of one clang; times in milliseconds, memory in MiB.

    `start` is the yardstick for how busy the machine is: a program that does nothing is started and reaped.
    """

    role: str
    bitcode_bytes: int
    resident_mib: float
    forks: int
    fork_median_ms: float
    fork_best_ms: float
    start_median_ms: float
    replay_median_ms: float
    fork_to_replay: float


@dataclass(slots=True)
class Equality:
    """Trees of forks of one role."""

    role: str
    modules: int
    trees: int
    forks: int
    leaves: int
    unequal: int


@dataclass(slots=True)
class Leaks:
    """What many forks left behind; memory in KiB."""

    forks: int
    processes: int
    descriptors: int
    scratch_folders: int
    resident_before_kib: int
    resident_after_kib: int


def bitcode_of_size(size: int, toolchain: Toolchain, folder: Path) -> Path:
    """Compile a module of about that many bytes of bitcode."""
    count, path = max(size // 6500, 1), folder / f"{size}.bc"
    for _ in range(3):
        source = path.with_suffix(".c")
        source.write_text("".join(FUNCTION.format(n=number) for number in range(count)))
        flags = ["-Oz", "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
        result = toolchain.run([*flags, str(source), "-o", str(path)])
        if result.returncode != 0:
            sys.exit(result.stderr)
        count = max(round(count * size / path.stat().st_size), 1)
    return path


def random_answer(session: ForkableSession, decision: Decision, chance: random.Random) -> bytes:
    """Return an answer that clang survives."""
    advisor, header = session.advisors[decision.advisor], session.header(decision.advisor)
    if advisor is PRIORITY:
        return struct.pack("<f", chance.uniform(0, 1000))
    if advisor is INLINING:
        return struct.pack("<q", chance.randrange(2))
    assert header is not None
    mask = np.frombuffer(decision.payload, header.dtype)[0]["mask"]
    return struct.pack("<q", chance.choice(np.flatnonzero(mask).tolist()))


def resident_kib(pid: int) -> int:
    """Return a process's resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@dataclass(slots=True)
class Samples:
    """Times in milliseconds."""

    forks: list[float] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    replays: list[float] = field(default_factory=list)
    resident_mib: float = 0.0


def milliseconds(begin: float) -> float:
    """Return how long ago that was."""
    return (time.perf_counter() - begin) * 1e3


def time_forks(role: str, bitcode: Path, toolchain: Toolchain, repeats: int, samples: Samples) -> None:
    """Time forks of a clang that waits, and a fresh clang that is led to the same decision."""
    command = plan(Module(bitcode.stem, bitcode), toolchain).command
    chance = random.Random(0)
    answers: list[bytes] = []
    with ForkableSession(command, ROLES[role]) as session:
        decision = session.wait(TIMEOUT)
        while decision is not None and len(answers) < PREFIX:
            answers.append(random_answer(session, decision, chance))
            session.advise(answers[-1])
            decision = session.wait(TIMEOUT)
        assert decision is not None, f"{bitcode} has no more than {PREFIX} decisions"
        for _ in range(repeats):
            begin = time.perf_counter()
            fork = session.fork()
            samples.forks.append(milliseconds(begin))
            fork.close()
            begin = time.perf_counter()
            os.waitpid(os.posix_spawn(NOTHING, [NOTHING], os.environ), 0)
            samples.starts.append(milliseconds(begin))
        begin = time.perf_counter()
        with ForkableSession(command, ROLES[role]) as fresh:
            fresh.advise_ahead(answers)
            assert fresh.wait(TIMEOUT) == decision
            samples.replays.append(milliseconds(begin))
        samples.resident_mib = resident_kib(session.pid) / 1024


def measure_times(toolchain: Toolchain, repeats: int) -> list[Timing]:
    """Go through all sizes and kinds of decision several times."""
    cases: dict[tuple[int, str], Samples] = {}
    with tempfile.TemporaryDirectory() as folder:
        modules = [bitcode_of_size(round(megabytes * 1e6), toolchain, Path(folder)) for megabytes in SIZES]
        for _ in range(ROUNDS):
            for module in modules:
                for role in ("inlining", "eviction"):
                    samples = cases.setdefault((module.stat().st_size, role), Samples())
                    time_forks(role, module, toolchain, -(-repeats // ROUNDS), samples)
    timings = []
    for (size, role), samples in cases.items():
        fork, start, replay = map(statistics.median, (samples.forks, samples.starts, samples.replays))
        best, count = min(samples.forks), len(samples.forks)
        timings.append(Timing(role, size, samples.resident_mib, count, fork, best, start, replay, fork / replay))
    return timings


class Tree:
    """A random tree of forks over one compile.

    Args:
        command: the compile.
        advisors: who asks.
        chance: the source of chance.
        forks: how many forks at most.
    """

    def __init__(self, command: Sequence[str], advisors: Sequence[Advisor], chance: random.Random, forks: int) -> None:
        self.command = command
        self.advisors = advisors
        self.chance = chance
        self.room = forks
        self.forks = 0
        self.leaves: list[tuple[list[bytes], bytes]] = []

    def grow(self) -> None:
        """Compile to the end, with forks on the way."""
        with ForkableSession(self.command, self.advisors, optimization_record=True) as root:
            self._branch(root, [], root.wait(TIMEOUT))

    def _branch(self, session: ForkableSession, answers: list[bytes], decision: Decision | None) -> None:
        while decision is not None:
            if self.forks < self.room and self.chance.random() < 0.1:
                self.forks += 1
                with session.fork() as fork:
                    self._branch(fork, answers.copy(), decision)
            answers.append(random_answer(session, decision, self.chance))
            session.advise(answers[-1])
            decision = session.wait(TIMEOUT)
        compiled = session.finish(TIMEOUT)
        self.leaves.append((answers, compiled.object_bytes + compiled.optimization_record))

    def unequal(self) -> int:
        """Return how many leaves differ from a fresh clang with their answers."""
        return sum(self._replay(answers) != found for answers, found in self.leaves)

    def _replay(self, answers: list[bytes]) -> bytes:
        with ForkableSession(self.command, self.advisors, optimization_record=True) as session:
            if len(self.advisors) == 1:
                session.advise_ahead(answers)
            else:
                for answer in answers:
                    if session.wait(TIMEOUT) is None:
                        return b""
                    session.advise(answer)
            compiled = session.finish(TIMEOUT)
            return compiled.object_bytes + compiled.optimization_record


def check_equality(role: str, modules: Sequence[Module], toolchain: Toolchain, trees: int) -> Equality:
    """Grow random trees over modules in turn, and compare every leaf with its replay."""
    result = Equality(role, len(modules), trees, 0, 0, 0)
    for number in range(trees):
        command = plan(modules[number % len(modules)], toolchain).command
        tree = Tree(command, ROLES[role], random.Random(f"{role} {number}"), forks=3)
        tree.grow()
        result.forks += tree.forks
        result.leaves += len(tree.leaves)
        result.unequal += tree.unequal()
    return result


def held() -> tuple[int, int, int]:
    """Return how many children, descriptors and scratch folders this process has."""
    gc.collect()
    children = sum(len(Path(task, "children").read_text().split()) for task in Path("/proc/self/task").iterdir())
    folders = len(list(Path(scratch_parent()).glob(f"mlgo-gym-{os.getpid()}-*")))
    return children, len(list(Path("/proc/self/fd").iterdir())), folders


def check_leaks(module: Module, toolchain: Toolchain, forks: int) -> Leaks:
    """Fork a waiting clang many times; every tenth fork answers, every third is forked itself."""
    before = held()
    warm = 0
    with ForkableSession(plan(module, toolchain).command, (INLINING,)) as session:
        session.wait(TIMEOUT)
        for number in range(forks):
            if number == forks // 10:
                warm = resident_kib(os.getpid())
            with session.fork() as fork:
                if number % 10 == 0:
                    fork.advise(bytes(8))
                    fork.wait(TIMEOUT)
                elif number % 3 == 0:
                    fork.fork().close()
        after = resident_kib(os.getpid())
    processes, descriptors, folders = (now - then for now, then in zip(held(), before, strict=True))
    return Leaks(forks, processes, descriptors, folders, warm, after)


def table(rows: Sequence[Timing | Equality | Leaks]) -> Iterator[str]:
    """Yield the lines of a table."""
    dictionaries = [asdict(row) for row in rows]
    cells = [[f"{value:.3f}" if isinstance(value, float) else str(value) for value in d.values()] for d in dictionaries]
    titles = list(dictionaries[0])
    widths = [max(len(row[at]) for row in [titles, *cells]) for at in range(len(titles))]
    for row in [titles, *cells]:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def main() -> None:
    """Measure, print the tables, write the JSON; exit with 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clang", help="the compiler; default: the bundled one")
    parser.add_argument("--corpus", default="builtin", help="whose ten smallest modules the trees grow on")
    parser.add_argument("--repeats", type=int, default=100, help="forks for each time")
    parser.add_argument("--trees", type=int, default=200, help="trees of forks, over all roles")
    parser.add_argument("--forks", type=int, default=2000, help="forks in a row")
    parser.add_argument("--output", type=Path, help="where to write the JSON")
    arguments = parser.parse_args()
    supported, why = snapshot_support()
    if not supported:
        sys.exit(f"no forks on this machine: {why}")
    toolchain = find_toolchain(arguments.clang)
    modules = sorted(open_corpus(arguments.corpus, toolchain=toolchain), key=lambda m: m.bitcode.stat().st_size)[:10]

    timings = measure_times(toolchain, arguments.repeats)
    print("\n".join(table(timings)), end="\n\n", flush=True)
    leaks = check_leaks(modules[0], toolchain, arguments.forks)
    print("\n".join(table([leaks])), end="\n\n", flush=True)
    equalities = [check_equality(role, modules, toolchain, arguments.trees // len(ROLES)) for role in ROLES]
    print("\n".join(table(equalities)))

    small = [timing.fork_median_ms for timing in timings if timing.resident_mib < SMALL_MIB]
    met = {
        "time": max(small) < MOST_MS,
        "equality": all(equality.leaves and not equality.unequal for equality in equalities),
        "leaks": leaks.forks > 0 and leaks.processes == leaks.descriptors == leaks.scratch_folders == 0,
    }
    findings = {
        "clang": toolchain.version_text,
        "bundled": toolchain.bundled,
        "times": [asdict(timing) for timing in timings],
        "equality": [asdict(equality) for equality in equalities],
        "leaks": asdict(leaks),
        "largest_median_ms_below_100_mib": max(small),
        "targets_met": met,
    }
    if arguments.output is not None:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(findings, indent=2) + "\n")
    print(f"\ntargets met: {met}")
    sys.exit(0 if all(met.values()) else 1)


if __name__ == "__main__":
    main()
