"""Search at -O2 for fewer executed instructions; writes docs/results/speed.json.

    python -m benchmarks.speed                    # held-out programs; a module with a result is not searched again
    python -m benchmarks.speed --only lua,cmark   # these programs

Each module that executes at least 3 % of a program's instructions is searched by bundles with 50 compiles, by the
weighted metric `WEIGHTS`; the other modules of the program are plain clang's. Then the program is linked from the best
objects of all modules, checked by its output and counted, and its wall time is measured in turns with plain clang's.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.measuring import command_line, write_json
from benchmarks.run_time import ROUNDS, wall_time
from mlgo_gym.attribution.inline_compile import run_inline_compile
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError, NoDecisionError
from mlgo_gym.llvm.function_sizes import function_sizes
from mlgo_gym.make_env import make_environment
from mlgo_gym.programs import ModulePrograms, Program, link_program, measure_program, read_programs
from mlgo_gym.search import search_module

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "speed.json"

CORPUS = "programs@O2"

WEIGHTS = {"instructions": 1.0, "text": 0.03}

NO_SIZE_LIMIT = ("-mllvm", "-ml-advisor-size-increase-threshold=100")
"""At -O2 a module often doubles; then the ML advisor inlines nothing more, which plain clang does."""

COMPILES = 50

LEAST_SHARE = 0.03
"""Smallest share of a program's instructions of a module that is searched."""


def make() -> CompilerEnv:
    """Return the environment of the search."""
    options = {"extra_flags": NO_SIZE_LIMIT}
    return make_environment("mlgo/Inline-v0", {"corpus": CORPUS, "metric": WEIGHTS, "compile_options": options})


def hot_modules(env: CompilerEnv, program: Program) -> dict[str, float]:
    """Return the modules of a program that execute many of its instructions, each with its share."""
    programs = env.setup.project_costs["instructions"]
    assert isinstance(programs, ModulePrograms)
    executed = programs.count(program.modules[0], by_function=True)
    shares = {}
    for name in program.modules:
        sizes = function_sizes(env.setup.plain_objects.object(name))
        own = sum(executed.functions.get(symbol, 0) for symbol in (*sizes.functions, *sizes.aliases))
        shares[name] = round(own / executed.total, 4)
    return {name: share for name, share in shares.items() if share >= LEAST_SHARE}


def search(name: str) -> dict[str, Any] | None:
    """Return the best actions of a module; None if it has no decision."""
    env = make()
    try:
        found = search_module(env, env.corpus.module(name), "bundles", compiles=COMPILES)
    except NoDecisionError:
        return None
    finally:
        env.close()
    return {"cost": round(found.cost, 6), "compiles": found.compiles, "actions": "".join(map(str, found.actions))}


def compiled(env: CompilerEnv, name: str, actions: str) -> bytes:
    """Return the object of a module with some actions."""
    remaining = iter(actions)
    compilation = env.compilation(env.corpus.module(name))
    return run_inline_compile(compilation, env.task, lambda _: int(next(remaining)), env.setup.timeout).object_bytes


def measure(env: CompilerEnv, program: Program, modules: dict[str, dict[str, Any] | None]) -> dict[str, Any]:
    """Return size, instructions and wall time of a program by plain clang and with the best objects."""
    path = env.corpus.path
    assert path is not None
    records: dict[str, dict[str, Any]] = {}
    executables = {}
    with tempfile.TemporaryDirectory() as scratch:
        for build in ("plain", "search"):
            objects = {}
            for number, name in enumerate(program.modules):
                found = modules.get(name) if build == "search" else None
                data = env.setup.plain_objects.object(name) if found is None else compiled(env, name, found["actions"])
                objects[name] = Path(scratch, f"{build}-{number}.o")
                objects[name].write_bytes(data)
            executables[build] = Path(scratch, build)
            link_program(program, path, objects, executables[build], env.toolchain)
            counted = measure_program(program, path, objects, executables[build], "cachegrind")
            records[build] = {"size": counted.size, "instructions": counted.instructions}
        times = [[wall_time(program, path, executables[build]) for build in ("plain", "search")] for _ in range(ROUNDS)]
    ratios = [search / plain for plain, search in times]
    return {**records, "time_ratio": round(statistics.median(ratios), 4), "times": sorted(round(r, 4) for r in ratios)}


def main() -> None:
    """Search the modules that the results lack, then measure the programs."""
    parser = command_line(__doc__)
    parser.add_argument("--only", default="", help="programs, separated by commas (default: held-out ones)")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--measure", action="store_true", help="measure the programs again, on a quiet machine")
    options = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"programs": {}}
    env = make()
    chosen = set(filter(None, options.only.split(",")))
    programs = [each for each in read_programs(env.corpus) if (each.name in chosen if chosen else each.held_out)]
    with ProcessPoolExecutor(options.jobs) as pool:
        running = {}
        for program in programs:
            known = results["programs"].setdefault(program.name, {"held_out": program.held_out})
            if "modules" not in known:
                known["modules"] = {name: {"share": share} for name, share in hot_modules(env, program).items()}
            for name, record in known["modules"].items():
                if "found" not in record:
                    running[pool.submit(search, name)] = record, program.name, name
        for done in as_completed(running):
            record, program_name, name = running[done]
            record["found"] = done.result()
            write_json(RESULTS, results)
            print(program_name, name, record["share"], record["found"] and record["found"]["cost"], flush=True)
    for program in programs:
        known = results["programs"][program.name]
        if options.measure or "builds" not in known:
            found = {name: record["found"] for name, record in known["modules"].items()}
            try:
                known["builds"] = measure(env, program, found)
            except MlgoError as error:
                print(f"{program.name}: {error}", flush=True)
                continue
            write_json(RESULTS, results)
        builds = known["builds"]
        size, instructions = (builds["search"][key] / builds["plain"][key] - 1 for key in ("size", "instructions"))
        time_change = builds["time_ratio"] - 1
        print(f"{program.name}: size {size:+.1%}, instructions {instructions:+.1%}, time {time_change:+.1%}")


if __name__ == "__main__":
    main()
