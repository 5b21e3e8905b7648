"""Time of register allocation in each function: plain clang, and `evict`; prints, and writes JSON.

    taskset -c 0 python -m benchmarks.allocation_time --output FILE

Clang's time trace has the wall time of the greedy allocator in each function. Three builds take turns, and the least
time of a function counts: plain clang, the advisor with clang's own choices, and the network. Native code decides, as
in `mlgo-clang`. The second build has the cost of the features and of the pipe alone.

Clang and the network take turns, so one core is enough, and `taskset` avoids the time between cores. `two_cores` in the
JSON is the summary of a run without it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evictions import BUNDLED, LEVELS, held_out
from benchmarks.measuring import Table, command_line, write_json
from mlgo_clang.interactive import EVICTION, InteractiveCompile
from mlgo_clang.native import NativeNetwork
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.evaluation.compiled_objects import PLAIN
from mlgo_gym.policies.bundled import bundled_file
from mlgo_gym.policies.network import Network
from mlgo_gym.training.eviction_imitation import EvictionImitation

OWN = "own"
"""Name of the advisor with clang's own choices in the results."""

LEAST = 1000
"""Least time of plain clang, in microseconds, of a function that counts."""

NEVER = 1e6
"""Margin in percent by which a network never deviates from clang's own choice."""


def times(compilation: Compilation, network: NativeNetwork | None) -> tuple[dict[str, int], int]:
    """Return the microseconds of allocation by function, and the number of decisions."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        words = [f"-ftime-trace={trace}", "-ftime-trace-granularity=0", "-o", str(Path(folder, "object.o"))]
        # Options of an advisor go behind -cc1.
        compiler, flags = (*compilation.toolchain.command, compilation.flags[0]), compilation.flags[1:]
        rest = [*flags, *words, *compilation.inputs]
        advisors = [] if network is None else [(EVICTION, network.bind)]
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            run = InteractiveCompile(compiler, rest, advisors, null, timeout=600.0)
        finally:
            os.close(null)
        if run.status != 0:
            raise SystemExit(f"clang exited with status {run.status} for {compilation.module.name}")
        events = json.loads(trace.read_bytes())["traceEvents"]
    functions = sorted((each["ts"], each["args"]["detail"]) for each in events if each["name"] == "OptFunction")
    starts = np.array([start for start, _ in functions])
    found: dict[str, int] = {}
    for each in events:
        if each["name"] == "RunPass" and each["args"].get("detail") == "Greedy Register Allocator":
            _, name = functions[int(np.searchsorted(starts, each["ts"], side="right")) - 1]
            found[name] = found.get(name, 0) + each["dur"]
    return found, run.decisions


def measure(builds: Mapping[str, NativeNetwork | None], compilation: Compilation, rounds: int) -> dict[str, Any] | None:
    """Return the least time of each function by build; None for a module without decisions."""
    least: dict[str, dict[str, int]] = {name: {} for name in builds}
    for _ in range(rounds):
        for name, network in builds.items():
            found, decisions = times(compilation, network)
            if network is not None and not decisions:
                return None
            for function, duration in found.items():
                least[name][function] = min(duration, least[name].get(function, duration))
    return {
        function: [least[name].get(function) for name in builds]
        for function, plain in least[PLAIN].items()
        if plain >= LEAST
    }


def summary(modules: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ratios of the times of functions to those of plain clang."""
    rows = np.array([row for each in modules.values() if each for row in each.values() if None not in row], float)
    found: dict[str, Any] = {"functions": len(rows), "modules": sum(1 for each in modules.values() if each)}
    for column, name in ((1, OWN), (2, BUNDLED)):
        ratios = rows[:, column] / rows[:, 0]
        found[name] = {
            "total": float(rows[:, column].sum() / rows[:, 0].sum()),
            "median": float(np.median(ratios)),
            "largest": float(ratios.max()),
            "above_two": int((ratios > 2).sum()),
        }
    return found


def main() -> None:
    """Measure the modules of the held-out programs that the results lack."""
    parser = command_line(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="compiles per build (default: 3)")
    parser.add_argument("--output", type=Path, help="path of the results")
    options = parser.parse_args()
    output = options.output
    results: dict[str, Any] = json.loads(output.read_text()) if output and output.exists() else {"modules": {}}
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder, "own.safetensors")
        EvictionImitation().with_margin(Network.load(bundled_file(BUNDLED)), NEVER).save(own)
        for level in LEVELS:
            env, modules = held_out(level)
            compiler = env.toolchain.command
            builds = {PLAIN: None, OWN: NativeNetwork(str(own), compiler)}
            builds[BUNDLED] = NativeNetwork(str(bundled_file(BUNDLED)), compiler)
            for module in modules:
                if f"{level} {module}" not in results["modules"]:
                    compilation = env.compilation(env.corpus.module(module))
                    results["modules"][f"{level} {module}"] = measure(builds, compilation, options.rounds)
                    write_json(output, results)
    results["summary"] = summary(results["modules"])
    write_json(output, results)
    table = Table(
        {"build": "<8", "functions": ">9", "total": ">6.2f", "median": ">6.2f", "largest": ">7.2f", "> 2": ">4"}
    )
    for name in (OWN, BUNDLED):
        table.row(name, results["summary"]["functions"], *results["summary"][name].values())


if __name__ == "__main__":
    main()
