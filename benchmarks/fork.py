"""Cost, exactness and leaks of forks of a clang process that waits for a decision.

    python -m benchmarks.fork --output runs/fork.json

Prints three tables. *Time*: forks by the size of the module, against a fresh clang that replays the same decisions; all
sizes in turn, in several rounds. *Equality*: random trees of forks; each leaf's object must equal that of a fresh clang
with the leaf's answers. *Leaks*: processes, descriptors, scratch folders and memory before and after many forks. The
exit status is 1 if a target is missed.
"""

from __future__ import annotations

import gc
import os
import random
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.measuring import Table, command_line, write_json
from mlgo_clang.files import scratch_parent
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.llvm.advisors import ADVISORS, EVICTION, INLINING, PRIORITY, Advisor
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain

TIMEOUT = 300.0

MAX_MS = 2.0
"""Target: milliseconds of the median fork of a clang with less than `SMALL_MIB` of resident memory."""

SMALL_MIB = 100

SIZES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Megabytes of bitcode."""

PREFIX = 10
"""Number of decisions that are answered before a timed fork."""

ROUNDS = 5
"""Rounds over all sizes; the load of a machine changes within seconds."""

NOTHING = "/bin/true"

ROLES: dict[str, tuple[Advisor, ...]] = {
    "inlining": (INLINING,),
    "eviction": (EVICTION,),
    "priority": (PRIORITY,),
    "all": ADVISORS,
}

FUNCTION = Path(__file__).with_name("sources") / "register_pressure.c.in"
"""Register pressure and calls; a module of a given size repeats this text."""


@dataclass(slots=True)
class Timing:
    """Forks of one clang; times in milliseconds, memory in MiB.

    `start_median_ms` is the time that a program that does nothing takes to start and end; it shows the machine's load.
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
    """Resources that many forks left behind; memory in KiB."""

    forks: int
    processes: int
    descriptors: int
    scratch_folders: int
    resident_before_kib: int
    resident_after_kib: int


def bitcode_of_size(size: int, toolchain: Toolchain, folder: Path) -> Path:
    """Compile a module of about `size` bytes of bitcode."""
    count, path = max(size // 6500, 1), folder / f"{size}.bc"
    for _ in range(3):
        source = path.with_suffix(".c")
        source.write_text("".join(FUNCTION.read_text().format(n=number) for number in range(count)))
        flags = ["-Oz", "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
        result = toolchain.run([*flags, str(source), "-o", str(path)])
        if result.returncode != 0:
            sys.exit(result.stderr)
        count = max(round(count * size / path.stat().st_size), 1)
    return path


def random_answer(session: Session, decision: Decision, chance: random.Random) -> bytes:
    """Return a random legal answer."""
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
    """Return the milliseconds since `begin`."""
    return (time.perf_counter() - begin) * 1e3


def time_forks(role: str, bitcode: Path, toolchain: Toolchain, repeats: int, samples: Samples) -> None:
    """Time forks of a waiting clang, and a fresh clang that replays the same decisions."""
    command = plan(Module(bitcode.stem, bitcode), toolchain).command
    chance = random.Random(0)
    answers: list[bytes] = []
    with Session(command, ROLES[role]) as session:
        decision = session.wait(TIMEOUT)
        while decision is not None and len(answers) < PREFIX:
            answers.append(random_answer(session, decision, chance))
            session.advise(answers[-1])
            decision = session.wait(TIMEOUT)
        assert decision is not None, f"expected more than {PREFIX} decisions in {bitcode}"
        for _ in range(repeats):
            begin = time.perf_counter()
            fork = session.fork()
            samples.forks.append(milliseconds(begin))
            fork.close()
            begin = time.perf_counter()
            os.waitpid(os.posix_spawn(NOTHING, [NOTHING], os.environ), 0)
            samples.starts.append(milliseconds(begin))
        begin = time.perf_counter()
        with Session(command, ROLES[role]) as fresh:
            fresh.advise_ahead(answers)
            assert fresh.wait(TIMEOUT) == decision
            samples.replays.append(milliseconds(begin))
        samples.resident_mib = resident_kib(session.pid) / 1024


def measure_times(toolchain: Toolchain, repeats: int) -> list[Timing]:
    """Time forks for all sizes and kinds of decision."""
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
        command: the compile command.
        advisors: the advisors that request decisions.
        chance: random generator.
        forks: maximal number of forks.
    """

    def __init__(self, command: Sequence[str], advisors: Sequence[Advisor], chance: random.Random, forks: int) -> None:
        self.command = command
        self.advisors = advisors
        self.chance = chance
        self.max_forks = forks
        self.forks = 0
        self.leaves: list[tuple[list[bytes], bytes]] = []

    def grow(self) -> None:
        """Compile to the end, and fork at random decisions."""
        with Session(self.command, self.advisors, optimization_record=True) as root:
            self._branch(root, [], root.wait(TIMEOUT))

    def _branch(self, session: Session, answers: list[bytes], decision: Decision | None) -> None:
        while decision is not None:
            if self.forks < self.max_forks and self.chance.random() < 0.1:
                self.forks += 1
                with session.fork() as fork:
                    self._branch(fork, answers.copy(), decision)
            answers.append(random_answer(session, decision, self.chance))
            session.advise(answers[-1])
            decision = session.wait(TIMEOUT)
        compiled = session.finish(TIMEOUT)
        self.leaves.append((answers, compiled.object_bytes + compiled.optimization_record))

    def unequal(self) -> int:
        """Return the number of leaves that differ from a fresh clang with the same answers."""
        return sum(self._replay(answers) != found for answers, found in self.leaves)

    def _replay(self, answers: list[bytes]) -> bytes:
        with Session(self.command, self.advisors, optimization_record=True) as session:
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
    """Grow random trees over the modules in turn, and compare every leaf with its replay."""
    result = Equality(role, len(modules), trees, 0, 0, 0)
    for number in range(trees):
        command = plan(modules[number % len(modules)], toolchain).command
        tree = Tree(command, ROLES[role], random.Random(f"{role} {number}"), forks=3)
        tree.grow()
        result.forks += tree.forks
        result.leaves += len(tree.leaves)
        result.unequal += tree.unequal()
    return result


def resources() -> tuple[int, int, int]:
    """Return the numbers of children, descriptors and scratch folders of this process."""
    gc.collect()
    children = sum(len(Path(task, "children").read_text().split()) for task in Path("/proc/self/task").iterdir())
    folders = len(list(Path(scratch_parent()).glob(f"mlgo-gym-{os.getpid()}-*")))
    return children, len(list(Path("/proc/self/fd").iterdir())), folders


def check_leaks(module: Module, toolchain: Toolchain, forks: int) -> Leaks:
    """Fork a waiting clang many times; every tenth fork answers a decision, every third is forked again."""
    before = resources()
    warm = 0
    with Session(plan(module, toolchain).command, (INLINING,)) as session:
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
    processes, descriptors, folders = (now - then for now, then in zip(resources(), before, strict=True))
    return Leaks(forks, processes, descriptors, folders, warm, after)


def show(rows: Sequence[Timing | Equality | Leaks]) -> None:
    """Print rows as a table."""
    values = [asdict(row) for row in rows]
    table = Table(
        {name: f">{max(len(name), 9)}{'.3f' if isinstance(of, float) else ''}" for name, of in values[0].items()}
    )
    for row in values:
        table.row(*row.values())
    print()


def main() -> None:
    """Measure, print the tables, write the JSON file."""
    parser = command_line(__doc__)
    parser.add_argument("--clang", help="the compiler (default: the bundled one)")
    parser.add_argument("--corpus", default="builtin", help="corpus whose ten smallest modules the trees use")
    parser.add_argument("--repeats", type=int, default=100, help="forks per time (default: 100)")
    parser.add_argument("--trees", type=int, default=200, help="trees of forks, over all roles (default: 200)")
    parser.add_argument("--forks", type=int, default=2000, help="forks in a row (default: 2000)")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    options = parser.parse_args()
    supported, reason = snapshot_support()
    if not supported:
        sys.exit(f"no forks on this machine: {reason}")
    toolchain = find_toolchain(options.clang)
    modules = sorted(open_corpus(options.corpus, toolchain=toolchain), key=lambda m: m.bitcode.stat().st_size)[:10]

    timings = measure_times(toolchain, options.repeats)
    show(timings)
    leaks = check_leaks(modules[0], toolchain, options.forks)
    show([leaks])
    equalities = [check_equality(role, modules, toolchain, options.trees // len(ROLES)) for role in ROLES]
    show(equalities)

    slowest = max(timing.fork_median_ms for timing in timings if timing.resident_mib < SMALL_MIB)
    met = {
        "time": slowest < MAX_MS,
        "equality": all(equality.leaves and not equality.unequal for equality in equalities),
        "leaks": leaks.forks > 0 and leaks.processes == leaks.descriptors == leaks.scratch_folders == 0,
    }
    findings = {
        "clang": toolchain.version_text,
        "bundled": toolchain.bundled,
        "times": [asdict(timing) for timing in timings],
        "equality": [asdict(equality) for equality in equalities],
        "leaks": asdict(leaks),
        "largest_median_ms_below_100_mib": slowest,
        "targets_met": met,
    }
    write_json(options.output, findings)
    print(f"targets met: {met}")
    sys.exit(0 if all(met.values()) else 1)


if __name__ == "__main__":
    main()
