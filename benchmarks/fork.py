"""Time of forks of a clang that waits for an inlining decision, against a fresh clang that replays the same decisions.

    python -m benchmarks.fork --output runs/fork.json

Modules of all sizes take turns, in several rounds. The exit status is 1 if the target is missed. `benchmarks.exactness`
compares the objects of forks, and `benchmarks.soak` looks for leaks.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measuring import SOURCES, Table, command_line, write_json
from mlgo_gym.compiler.session import Session
from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.module import Module
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain

TIMEOUT = 300.0

MAX_MS = 2.0
"""Target: milliseconds of the median fork of a clang with less than `SMALL_MIB` of resident memory."""

SMALL_MIB = 100

SIZES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Megabytes of bitcode."""

ANSWERS = [bytes(8), (1).to_bytes(8, "little")] * 5
"""Advice that is sent before a timed fork."""

ROUNDS = 5
"""Rounds over all sizes; the load of a machine changes within seconds."""


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


def time_forks(bitcode: Path, toolchain: Toolchain, repeats: int, times: dict[str, list[float]]) -> None:
    """Time forks of a waiting clang, starts of a program that does nothing, and a replay in a fresh clang."""
    command = plan(Module(bitcode.stem, bitcode), toolchain).command

    def note(name: str, begin: float) -> None:
        times.setdefault(name, []).append(1e3 * (time.perf_counter() - begin))

    with Session(command, (INLINING,)) as session:
        for answer in ANSWERS:
            assert session.wait(TIMEOUT) is not None, f"expected more than {len(ANSWERS)} decisions in {bitcode}"
            session.advise(answer)
        decision = session.wait(TIMEOUT)
        for _ in range(repeats):
            begin = time.perf_counter()
            fork = session.fork()
            note("fork", begin)
            fork.close()
            begin = time.perf_counter()
            os.waitpid(os.posix_spawn("/bin/true", ["/bin/true"], os.environ), 0)
            note("start", begin)
        begin = time.perf_counter()
        with Session(command, (INLINING,)) as fresh:
            fresh.advise_ahead(ANSWERS)
            assert fresh.wait(TIMEOUT) == decision
            note("replay", begin)
        pages = int(Path(f"/proc/{session.pid}/statm").read_text().split()[1])
        times["resident"] = [pages * os.sysconf("SC_PAGE_SIZE") / 2**20]


def measure(toolchain: Toolchain, repeats: int) -> list[dict[str, Any]]:
    """Time forks for all sizes; times in milliseconds, memory in MiB."""
    cases: dict[int, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        modules = [bitcode_of_size(round(megabytes * 1e6), toolchain, Path(folder)) for megabytes in SIZES]
        for _ in range(ROUNDS):
            for module in modules:
                time_forks(module, toolchain, -(-repeats // ROUNDS), cases.setdefault(module.stat().st_size, {}))
    return [
        {
            "bitcode_bytes": size,
            "resident_mib": times["resident"][0],
            **{f"{name}_median_ms": statistics.median(times[name]) for name in ("fork", "start", "replay")},
        }
        for size, times in cases.items()
    ]


def main() -> None:
    """Measure, print the table, write the JSON file."""
    parser = command_line(__doc__)
    parser.add_argument("--clang", help="the compiler (default: the bundled one)")
    parser.add_argument("--repeats", type=int, default=100, help="forks per size (default: 100)")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    options = parser.parse_args()
    supported, reason = snapshot_support()
    if not supported:
        sys.exit(f"no forks on this machine: {reason}")
    toolchain = find_toolchain(options.clang)
    times = measure(toolchain, options.repeats)
    titles = ("bytes", "resident MiB", "fork ms", "start ms", "replay ms")
    table = Table({title: f">12{'.2f' if number else ''}" for number, title in enumerate(titles)})
    for row in times:
        table.row(*row.values())
    met = max(row["fork_median_ms"] for row in times if row["resident_mib"] < SMALL_MIB) < MAX_MS
    write_json(options.output, {"clang": toolchain.version_text, "times": times, "target_met": met})
    print(f"target met: {met}")
    sys.exit(not met)


if __name__ == "__main__":
    main()
