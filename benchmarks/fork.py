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
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import SOURCES, Table, command_line, write_json
from mlgo_clang.files import scratch_parent
from mlgo_gym.compiler.coroutine import drive
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

FORKS = 3
"""Largest number of forks in a tree."""

ROLES: dict[str, tuple[Advisor, ...]] = {
    "inlining": (INLINING,),
    "eviction": (EVICTION,),
    "priority": (PRIORITY,),
    "all": ADVISORS,
}

Row = dict[str, Any]


def bitcode_of_size(size: int, toolchain: Toolchain, folder: Path) -> Path:
    """Compile a module of about `size` bytes of bitcode, with register pressure and calls."""
    function = (SOURCES / "register_pressure.c.in").read_text()
    count, path = max(size // 6500, 1), folder / f"{size}.bc"
    for _ in range(3):
        source = path.with_suffix(".c")
        source.write_text("".join(function.format(n=number) for number in range(count)))
        flags = ["-Oz", "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
        result = toolchain.run([*flags, str(source), "-o", str(path)])
        if result.returncode != 0:
            sys.exit(result.stderr)
        count = max(round(count * size / path.stat().st_size), 1)
    return path


def random_answer(session: Session, chance: random.Random, decision: Decision) -> bytes:
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


def time_forks(role: str, bitcode: Path, toolchain: Toolchain, repeats: int, times: dict[str, list[float]]) -> None:
    """Time forks of a waiting clang, starts of a program that does nothing, and a replay in a fresh clang."""
    command = plan(Module(bitcode.stem, bitcode), toolchain).command
    chance = random.Random(0)
    answers: list[bytes] = []

    def note(name: str, begin: float) -> None:
        times.setdefault(name, []).append(1e3 * (time.perf_counter() - begin))

    with Session(command, ROLES[role]) as session:
        decision = session.wait(TIMEOUT)
        while decision is not None and len(answers) < PREFIX:
            answers.append(random_answer(session, chance, decision))
            session.advise(answers[-1])
            decision = session.wait(TIMEOUT)
        assert decision is not None, f"expected more than {PREFIX} decisions in {bitcode}"
        for _ in range(repeats):
            begin = time.perf_counter()
            fork = session.fork()
            note("fork", begin)
            fork.close()
            begin = time.perf_counter()
            os.waitpid(os.posix_spawn("/bin/true", ["/bin/true"], os.environ), 0)
            note("start", begin)
        begin = time.perf_counter()
        with Session(command, ROLES[role]) as fresh:
            fresh.advise_ahead(answers)
            assert fresh.wait(TIMEOUT) == decision
            note("replay", begin)
        times["resident"] = [resident_kib(session.pid) / 1024]


def measure_times(toolchain: Toolchain, repeats: int) -> list[Row]:
    """Time forks for all sizes and kinds of decision; times in milliseconds, memory in MiB."""
    cases: dict[tuple[int, str], dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        modules = [bitcode_of_size(round(megabytes * 1e6), toolchain, Path(folder)) for megabytes in SIZES]
        for _ in range(ROUNDS):
            for module in modules:
                for role in ("inlining", "eviction"):
                    times = cases.setdefault((module.stat().st_size, role), {})
                    time_forks(role, module, toolchain, -(-repeats // ROUNDS), times)
    return [
        {
            "role": role,
            "bitcode_bytes": size,
            "resident_mib": times["resident"][0],
            **{f"{name}_median_ms": statistics.median(times[name]) for name in ("fork", "start", "replay")},
        }
        for (size, role), times in cases.items()
    ]


def leaves_of(command: Sequence[str], role: str, chance: random.Random) -> tuple[int, list[tuple[list[bytes], bytes]]]:
    """Compile to the end with random answers, and fork at random decisions.

    Returns:
        The number of forks, and the answers and the output of each compile.
    """
    leaves: list[tuple[list[bytes], bytes]] = []
    forks = 0

    def branch(session: Session, answers: list[bytes], decision: Decision | None) -> None:
        nonlocal forks
        while decision is not None:
            if forks < FORKS and chance.random() < 0.1:
                forks += 1
                with session.fork() as fork:
                    branch(fork, answers.copy(), decision)
            answers.append(random_answer(session, chance, decision))
            session.advise(answers[-1])
            decision = session.wait(TIMEOUT)
        compiled = session.finish(TIMEOUT)
        leaves.append((answers, compiled.object_bytes + compiled.optimization_record))

    with Session(command, ROLES[role], optimization_record=True) as root:
        branch(root, [], root.wait(TIMEOUT))
    return forks, leaves


def replayed(command: Sequence[str], role: str, answers: list[bytes]) -> bytes:
    """Return the output of a fresh clang with the same answers."""
    remaining = iter(answers)
    with Session(command, ROLES[role], optimization_record=True) as session:
        compiled = drive(session, lambda _: next(remaining), TIMEOUT)
        return compiled.object_bytes + compiled.optimization_record


def check_equality(role: str, modules: Sequence[Module], toolchain: Toolchain, trees: int) -> Row:
    """Grow random trees over the modules in turn, and compare every leaf with its replay."""
    row: Row = {"role": role, "trees": trees, "forks": 0, "leaves": 0, "unequal": 0}
    for number in range(trees):
        command = plan(modules[number % len(modules)], toolchain).command
        forks, leaves = leaves_of(command, role, random.Random(f"{role} {number}"))
        row["forks"] += forks
        row["leaves"] += len(leaves)
        row["unequal"] += sum(replayed(command, role, answers) != output for answers, output in leaves)
    return row


def resources() -> tuple[int, int, int]:
    """Return the numbers of children, descriptors and scratch folders of this process."""
    gc.collect()
    children = sum(len(Path(task, "children").read_text().split()) for task in Path("/proc/self/task").iterdir())
    folders = len(list(Path(scratch_parent()).glob(f"mlgo-gym-{os.getpid()}-*")))
    return children, len(list(Path("/proc/self/fd").iterdir())), folders


def check_leaks(module: Module, toolchain: Toolchain, forks: int) -> Row:
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
    left = (now - then for now, then in zip(resources(), before, strict=True))
    counts = dict(zip(("processes", "descriptors", "scratch_folders"), left, strict=True))
    return {"forks": forks, **counts, "resident_before_kib": warm, "resident_after_kib": after}


def show(rows: Sequence[Row]) -> None:
    """Print rows as a table."""
    table = Table(
        {name: f">{max(len(name), 9)}{'.3f' if isinstance(of, float) else ''}" for name, of in rows[0].items()}
    )
    for row in rows:
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
    modules = [*open_corpus(options.corpus, toolchain=toolchain).sorted_by_size()][:10]
    times = measure_times(toolchain, options.repeats)
    show(times)
    leaks = check_leaks(modules[0], toolchain, options.forks)
    show([leaks])
    equality = [check_equality(role, modules, toolchain, options.trees // len(ROLES)) for role in ROLES]
    show(equality)
    met = {
        "time": max(row["fork_median_ms"] for row in times if row["resident_mib"] < SMALL_MIB) < MAX_MS,
        "equality": all(row["leaves"] and not row["unequal"] for row in equality),
        "leaks": leaks["processes"] == leaks["descriptors"] == leaks["scratch_folders"] == 0,
    }
    versions = {"clang": toolchain.version_text, "bundled": toolchain.bundled}
    write_json(options.output, {**versions, "times": times, "equality": equality, "leaks": leaks, "targets_met": met})
    print(f"targets met: {met}")
    sys.exit(0 if all(met.values()) else 1)


if __name__ == "__main__":
    main()
