"""Time of forks of a clang that waits for an inlining decision, against a fresh clang that replays the same decisions.

    python -m benchmarks.fork [--output docs/results/fork.json]

Modules of all sizes take turns, in several rounds. `benchmarks.exactness` compares the objects of forks, and
`benchmarks.soak` looks for leaks.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.measuring import RESULTS, SOURCES, Table, command_line, write_json
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain

TIMEOUT = 300.0
FUNCTIONS = (10, 24, 48, 96, 240, 480, 960)
"""Numbers of functions in the modules; one has about 2,000 bytes of bitcode."""

ANSWERS = [bytes(8), (1).to_bytes(8, "little")] * 5
"""Advice that is sent before a timed fork."""

ROUNDS, FORKS = 5, 20
"""Rounds over all sizes, since the load of a machine changes within seconds; and forks of each clang."""


def bitcode(functions: int, toolchain: Toolchain, folder: Path) -> Path:
    """Compile a module of functions with register pressure and calls."""
    function, path = (SOURCES / "register_pressure.c.in").read_text(), folder / f"{functions}.bc"
    source = path.with_suffix(".c")
    source.write_text("".join(function.format(n=number) for number in range(functions)))
    flags = ["-Oz", "-fPIC", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
    result = toolchain.run([*flags, str(source), "-o", str(path)])
    if result.returncode != 0:
        sys.exit(result.stderr)
    return path


def time_forks(module: Path, toolchain: Toolchain, times: dict[str, list[float]]) -> None:
    """Time forks of a waiting clang, starts of a program that does nothing, and a replay in a fresh clang, in ms."""
    command = plan(Module(module.stem, module), toolchain).command
    begin = 0.0

    def note(name: str) -> None:
        times[name].append(1e3 * (time.perf_counter() - begin))

    with Session(command, (INLINING,)) as session:
        for answer in ANSWERS:
            session.wait(TIMEOUT)
            session.advise(answer)
        decision = session.wait(TIMEOUT)
        for _ in range(FORKS):
            begin = time.perf_counter()
            fork = session.fork()
            note("fork")
            fork.close()
            begin = time.perf_counter()
            os.waitpid(os.posix_spawn("/bin/true", ["/bin/true"], os.environ), 0)
            note("start")
        begin = time.perf_counter()
        with Session(command, (INLINING,)) as fresh:
            for answer in ANSWERS:
                fresh.wait(TIMEOUT)
                fresh.advise(answer)
            assert fresh.wait(TIMEOUT) == decision
            note("replay")
        pages = int(Path(f"/proc/{session.pid}/statm").read_text().split()[1])
        times["resident"] = [pages * os.sysconf("SC_PAGE_SIZE") / 2**20]


def main() -> None:
    """Measure, print the table, write the JSON file."""
    parser = command_line(__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS / "fork.json", help="JSON file to write")
    options = parser.parse_args()
    toolchain = find_toolchain()
    cases: dict[int, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        modules = [bitcode(functions, toolchain, Path(folder)) for functions in FUNCTIONS]
        for _ in range(ROUNDS):
            for module in modules:
                time_forks(module, toolchain, cases.setdefault(module.stat().st_size, defaultdict(list)))
    table, rows = Table(dict.fromkeys(("resident MiB", "fork ms", "start ms", "replay ms"), ">12.2f")), []
    for size, times in cases.items():
        medians = {f"{name}_median_ms": statistics.median(times[name]) for name in ("fork", "start", "replay")}
        rows.append({"bitcode_bytes": size, "resident_mib": times["resident"][0], **medians})
        table.row(times["resident"][0], *medians.values())
    write_json(options.output, {"clang": toolchain.version_text, "times": rows})


if __name__ == "__main__":
    main()
