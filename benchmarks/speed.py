"""Search at -O2 or -O3 for fewer executed instructions; writes docs/results/speed.json.

    python -m benchmarks.speed --level O2   # held-out programs without a result; --only names others
    python -m benchmarks.speed --time       # wall times, on a quiet machine

The modules of a program that execute at least `LEAST_SHARE` of its instructions are searched by bundles, those with
`LARGE_SHARE` first, one after the other, and then all others at the same time. In each of the rounds every search
delivers one object, and one run of the program, linked from all of them, counts the functions of each. So 50 compiles
of each of many modules take 50 runs of the program. The cost of a module is the sum of the instructions of its
functions, with a weight on its size. Functions of equal names and work that moves between modules disturb this sum. So
an object that was found is only kept if the program is better with it. The other modules are compiled by `COLD_POLICY`.

Then the program is linked from the best objects of all modules, checked by its output and counted. Wall times are those
of pairs of runs, one with plain clang's objects and one with the found ones, in random order.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.measuring import command_line, write_json
from benchmarks.run_time import wall_time
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.attribution.inline_compile import run_inline_compile
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.evaluation.intervals import estimates
from mlgo_gym.evaluation.summary import Change
from mlgo_gym.llvm.function_sizes import FunctionSizes, function_sizes
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.session_policy import SessionPolicy
from mlgo_gym.search import search_module
from mlgo_gym.tasks.metrics import (
    Program,
    ProgramMeasurement,
    link_program,
    measure_program,
    read_programs,
)
from mlgo_gym.training.flip_labels import cpu_seconds

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "speed.json"

NO_SIZE_LIMIT = ("-mllvm", "-ml-advisor-size-increase-threshold=100")
"""At -O2 a module often doubles; then the ML advisor inlines nothing more, which plain clang does."""

COMPILES = 50

SIZE_WEIGHT = 0.1
"""Weight of the relative size of a program, beside 1 for its instructions."""

LEAST_SHARE = 0.003
"""Smallest share of a program's instructions of a module that is searched."""

LARGE_SHARE = 0.2
"""Smallest share of a module that is searched alone."""

COLD_POLICY = "inline-os-fast"

PAIRS = 41
"""Pairs of runs for the wall time."""


class Rounds:
    """Runs a program once for the objects that the searches of its modules deliver at the same time.

    The environment of each search has it instead of `ModulePrograms`.

    Args:
        env: An environment with the corpus.
        program: The program.

    Attributes:
        modules: Names of its modules.
        searching: Names of the modules whose search has not ended.
        total: Instructions of the program by plain clang.
    """

    unit = 1
    counts_calls = True

    def __init__(self, env: CompilerEnv, program: Program) -> None:
        self._env, self._program = env, program
        self.modules = frozenset(program.modules)
        self.searching: set[str] = set()
        self._plain = {name: env.setup.plain_objects.object(name) for name in program.modules}
        self._symbols = {name: _symbols(data) for name, data in self._plain.items()}
        self._objects = dict(self._plain)
        self._functions: Mapping[str, int] = {}
        self._plain_functions: Mapping[str, int] = {}
        self._error: MlgoError | None = None
        self._changed = threading.Condition()
        self._delivered: set[str] = set()
        self._number = 0
        plain = self._run()
        self.total = sum(self._functions.values())
        self._plain_functions, self._plain_size = self._functions, plain.size

    def share(self, name: str) -> float:
        """Return the share of a module in the instructions of the program by plain clang."""
        return sum(self._plain_functions.get(symbol, 0) for symbol in self._symbols[name]) / self.total

    def cost(self, module: str, object_bytes: bytes | None = None) -> float:
        """Return the total of `functions()`."""
        return float(self.functions(module, object_bytes).text)

    def functions(self, module: str, object_bytes: bytes | None = None) -> FunctionSizes:
        """Wait for the objects of the other searches, and return the instructions of the module's functions.

        The total is that of plain clang's program, with the new counts of these functions.
        """
        sizes = function_sizes(self._plain[module] if object_bytes is None else object_bytes)
        counts: Mapping[str, int] = self._plain_functions
        if object_bytes is not None:
            with self._changed:
                number = self._number
                self._objects[module] = object_bytes
                self._delivered.add(module)
                self._run_if_complete()
                self._changed.wait_for(lambda: self._number > number)
                if self._error is not None:
                    raise CompilerError(str(self._error), kind="program")
                counts = self._functions
        symbols = {*sizes.functions, *sizes.aliases} | self._symbols[module]
        own: Counter[str] = Counter()
        for symbol in symbols & counts.keys():
            own[sizes.name(symbol) or symbol] += counts[symbol]
        plain = sum(self._plain_functions.get(symbol, 0) for symbol in symbols)
        return FunctionSizes(own, sizes.aliases, 0, self.total - plain + own.total())

    def leave(self, module: str, object_bytes: bytes) -> None:
        """End the search of a module; the other searches go on with this object of it."""
        with self._changed:
            self._objects[module] = object_bytes
            self.searching.discard(module)
            self._run_if_complete()

    def _run_if_complete(self) -> None:
        if self._delivered and self._delivered >= self.searching:
            self._delivered.clear()
            try:
                self._error = None
                self._run()
            except MlgoError as error:
                self._error = error
            self._number += 1
            self._changed.notify_all()

    def keep_better(self, modules: Sequence[str]) -> dict[str, bool]:
        """Return whether the program is better with the last object of each module, one after the other.

        Plain clang's object replaces one without which the program is as good.
        """
        best, kept = self._price(), {}
        for module in modules:
            found = self._objects[module]
            self._objects[module] = self._plain[module]
            price = self._price()
            kept[module] = price > best
            if kept[module]:
                self._objects[module] = found
            else:
                best = price
        return kept

    def _price(self) -> float:
        measured = self._run()
        return sum(self._functions.values()) / self.total + SIZE_WEIGHT * measured.size / self._plain_size

    def _run(self) -> ProgramMeasurement:
        measured = count(self._env, self._program, self._objects)
        self._functions = measured.functions
        return measured


def _symbols(data: bytes) -> set[str]:
    sizes = function_sizes(data)
    return {*sizes.functions, *sizes.aliases}


def link(env: CompilerEnv, program: Program, objects: Mapping[str, bytes], folder: Path) -> dict[str, Path]:
    """Link `program` in a folder, and return its object files by module."""
    assert env.corpus.path is not None
    files = {}
    for number, name in enumerate(program.modules):
        files[name] = folder / f"{number}.o"
        files[name].write_bytes(objects[name])
    link_program(program, env.corpus.path, files, folder / "program", env.toolchain)
    return files


def count(env: CompilerEnv, program: Program, objects: Mapping[str, bytes]) -> ProgramMeasurement:
    """Link a program, check its output and count its instructions."""
    assert env.corpus.path is not None
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files = link(env, program, objects, folder)
        return measure_program(program, env.corpus.path, files, folder / "program", "cachegrind")


def make(level: str, metric: str | Mapping[str, float] = "text") -> CompilerEnv:
    """Return an environment for the programs at a level."""
    options = {"extra_flags": NO_SIZE_LIMIT}
    return make_environment(
        "mlgo/Inline-v0", {"corpus": f"programs@{level}", "metric": metric, "compile_options": options}
    )


def search(level: str, program: Program, seed: int) -> dict[str, Any]:
    """Return the share and the found actions of each searched module of a program; None for one without decisions."""
    env = make(level)
    rounds = Rounds(env, program)
    shares = {name: rounds.share(name) for name in program.modules}
    names = [name for name, share in shares.items() if share >= LEAST_SHARE and env.decisions(env.corpus.module(name))]
    sizes = {name: function_sizes(env.setup.plain_objects.object(name)).text for name in program.modules}

    def search_one(name: str) -> dict[str, Any]:
        weight = SIZE_WEIGHT * sizes[name] / sum(sizes.values())
        own = make(level, {"instructions": 1.0, "text": weight})
        own.setup.project_costs["instructions"] = rounds
        last = own.setup.plain_objects.object(name)
        try:
            found = search_module(own, own.corpus.module(name), "bundles", compiles=COMPILES, seed=seed)
            actions = "".join(map(str, found.actions))
            last = compiled(env, name, actions)
        finally:
            rounds.leave(name, last)
        return {"cost": round(found.cost, 6), "compiles": found.compiles, "actions": actions}

    groups = [[name] for name in names if shares[name] >= LARGE_SHARE]
    groups.append([name for name in names if shares[name] < LARGE_SHARE])
    found: dict[str, dict[str, Any]] = {}
    for group in filter(None, groups):
        rounds.searching = set(group)
        with ThreadPoolExecutor(len(group)) as threads:
            found |= zip(group, threads.map(search_one, group), strict=True)
    for name, kept in rounds.keep_better(sorted(names, key=shares.__getitem__, reverse=True)).items():
        found[name]["kept"] = kept
    return {name: {"share": round(share, 4), "found": found.get(name)} for name, share in shares.items()}


def compiled(env: CompilerEnv, name: str, actions: str) -> bytes:
    """Return the object of a module with some actions."""
    remaining = iter(actions)
    compilation = env.compilation(env.corpus.module(name))
    return run_inline_compile(compilation, env.task, lambda _: int(next(remaining)), env.setup.timeout).object_bytes


def best_objects(env: CompilerEnv, program: Program, modules: Mapping[str, Mapping[str, Any]]) -> dict[str, bytes]:
    """Return the best object of each module: the found one, or for a module that hardly runs that of `COLD_POLICY`."""
    policy = load_policy(COLD_POLICY, env, seed=0)
    objects = {}
    for name in program.modules:
        record = modules[name]
        if record["found"] is not None and record["found"]["kept"]:
            objects[name] = compiled(env, name, record["found"]["actions"])
        elif record["share"] < LEAST_SHARE:
            choose = SessionPolicy(env.task, policy, name)
            compilation = env.compilation(env.corpus.module(name))
            objects[name] = run_inline_compile(compilation, env.task, choose, env.setup.timeout).object_bytes
        else:
            objects[name] = env.setup.plain_objects.object(name)
    return objects


def time_ratios(
    program: Program, env: CompilerEnv, builds: Mapping[str, Mapping[str, bytes]], seed: int
) -> dict[str, Any]:
    """Return wall time and CPU time of the found program against plain clang's: medians of pairs, with intervals."""
    path = env.corpus.path
    assert path is not None
    order = random.Random(seed)
    ratios: dict[str, list[float]] = {"time": [], "cpu": []}
    with tempfile.TemporaryDirectory() as scratch:
        for name, objects in builds.items():
            Path(scratch, name).mkdir()
            link(env, program, objects, Path(scratch, name))
        for _ in range(PAIRS):
            seconds = {}
            for name in order.sample(list(builds), len(builds)):
                before = cpu_seconds()
                wall = wall_time(program, path, Path(scratch, name, "program"))
                seconds[name] = {"time": wall, "cpu": cpu_seconds() - before}
            for kind, values in ratios.items():
                values.append(seconds["search"][kind] / seconds["plain"][kind])
    # The interval of a median at 95 % by ranks.
    rank = int(PAIRS / 2 - 0.98 * PAIRS**0.5)
    found: dict[str, Any] = {}
    for kind, values in ratios.items():
        values.sort()
        found[f"{kind}_ratio"] = round(statistics.median(values), 4)
        found[f"{kind}_interval"] = [round(values[rank], 4), round(values[-1 - rank], 4)]
    return found


def summary(programs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the changes over the measured held-out programs, each with its interval over programs."""
    records = [record for record in programs.values() if record["held_out"] and "builds" in record]
    found: dict[str, Any] = {"programs": len(records)}
    for key in ("instructions", "size"):
        pairs = tuple((float(each["builds"]["search"][key]), float(each["builds"]["plain"][key])) for each in records)
        values = estimates(Change(pairs))
        for name, value in (("mean", values.mean), ("total", values.total)):
            found[f"{key} {name}"] = [value.value, *(value.interval or ())]
    for kind in ("time", "cpu"):
        logarithms = [math.log(each[f"{kind}_ratio"]) for each in records if f"{kind}_ratio" in each]
        if logarithms:
            found[f"{kind} mean"] = math.expm1(math.fsum(logarithms) / len(logarithms))
    return found


def line(record: Mapping[str, Any]) -> str:
    """Return the changes of a program."""
    builds = record["builds"]
    size, instructions = (builds["search"][key] / builds["plain"][key] - 1 for key in ("size", "instructions"))
    time = f", time {record['time_ratio'] - 1:+.1%}" if "time_ratio" in record else ""
    return f"size {size:+.1%}, instructions {instructions:+.1%}{time}"


def main() -> None:
    """Search the programs that the results lack, and measure them."""
    parser = command_line(__doc__)
    parser.add_argument("--only", default="", help="programs, separated by commas (default: held-out ones)")
    parser.add_argument("--level", default="O2", choices=("O2", "O3"), help="optimisation level")
    parser.add_argument("--seed", type=int, default=0, help="seed of the search")
    parser.add_argument("--time", action="store_true", help="measure the wall time of the found programs")
    parser.add_argument("--output", type=Path, default=RESULTS, help="path of the results")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(options.output.read_text()) if options.output.exists() else {}
    level = results.setdefault(options.level, {"programs": {}})
    known = level["programs"]
    env = make(options.level)
    chosen = set(filter(None, options.only.split(",")))
    for program in read_programs(env.corpus):
        if program.name not in (chosen or {program.name}) or not (chosen or program.held_out):
            continue
        try:
            if program.name not in known:
                modules = search(options.level, program, options.seed)
                known[program.name] = {"held_out": program.held_out, "seed": options.seed, "modules": modules}
                write_json(options.output, results)
            record = known[program.name]
            if "builds" not in record or options.time:
                plain = {name: env.setup.plain_objects.object(name) for name in program.modules}
                builds = {"plain": plain, "search": best_objects(env, program, record["modules"])}
            if "builds" not in record:
                counted = {name: count(env, program, objects) for name, objects in builds.items()}
                record["builds"] = {
                    name: {"size": each.size, "instructions": each.instructions} for name, each in counted.items()
                }
            if options.time:
                record |= time_ratios(program, env, builds, options.seed)
        except MlgoError as error:
            print(f"{program.name}: {error}", flush=True)
            continue
        level["summary"] = summary(known)
        write_json(options.output, results)
        print(program.name, line(record), flush=True)


if __name__ == "__main__":
    main()
