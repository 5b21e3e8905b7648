"""Size of held-out projects on each target under policies, objects and linked; writes docs/results/targets.json.

    python -m benchmarks.targets                                  # all; a result in the file is not measured again
    python -m benchmarks.targets --targets thumbv7em --levels Oz --largest 200 --search 12

The modules are those of the held-out programs of the corpus `programs`: no policy was trained on their projects. The
program marisa is excluded, because opencc, which was in training, contains another version of its library. Each module
is compiled once per policy, the smallest programs first. The linked size is that of the modules' functions in the
program. `--search` searches small modules by 50 compiles each: of each program the smallest ones with 20 decisions or
more.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.measuring import RESULTS, Table, command_line, facts, read_json, write_json
from benchmarks.run_time import PolicyBuilds
from mlgo_gym.corpus.driver import TARGETS
from mlgo_gym.episode.metrics.programs import Program, link_program, linked_size, modules_of, read_programs
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.runner import PLAIN
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.search import search_module

LEVELS = ("Oz", "Os")
POLICIES = ("default", "last-call", "threshold:0", "threshold:5")
"""Policies; plain clang is the baseline."""

IN_TRAINING = {"marisa"}
"""Programs with a library of which another version was in training, as a part of opencc."""

COMPILES = 50
"""Compiles of a search per module."""

LEAST_DECISIONS = 20
PER_PROGRAM = 2
"""Searched modules per program."""

Results = dict[str, Any]


class Builds(PolicyBuilds):
    """Plain clang and the policies on the held-out programs of a corpus."""

    def decisions(self, module: str) -> int:
        """Return the number of decisions of a module."""
        return sum(self.env.decisions(self.env.corpus.module(module)).values())

    def programs(self, largest: int | None) -> list[Program]:
        """Return the held-out programs with at most so much bitcode in KiB, the smallest first."""
        corpus = self.env.corpus
        programs = [each for each in read_programs(corpus) if each.held_out and each.name not in IN_TRAINING]
        sizes = {each.name: sum(map(corpus.size, modules_of(each, self.path))) for each in programs}
        programs = [each for each in programs if largest is None or sizes[each.name] <= largest * 1024]
        return sorted(programs, key=lambda program: (sizes[program.name], program.name))

    def measure(self, program: Program, name: str) -> Results:
        """Return the size of each object with a decision and of the linked file, or the error of the build."""
        found: Results = {}
        with tempfile.TemporaryDirectory() as scratch:
            executable = Path(scratch) / "program"
            try:
                files = self.files(program, name)
                found["objects"] = {
                    module: object_sizes(file.read_bytes()).text
                    for module, file in files.items()
                    if self.decisions(module)
                }
                link_program(program, self.path, files, executable, self.env.toolchain)
                found["linked"] = linked_size(files, executable)
            except MlgoError as error:
                found["error"] = str(error).splitlines()[0][:300]
        return found

    def search(self, programs: Mapping[str, Any], count: int, found: Results) -> Iterator[None]:
        """Search small modules of measured programs; write bytes before and after into `found`; yield after each."""

        def key(name: str) -> tuple[int, str]:
            return self.env.corpus.size(name), name

        names: list[str] = []
        for builds in programs.values():
            modules = sorted(builds[PLAIN].get("objects", {}), key=key)
            names += [name for name in modules if self.decisions(name) >= LEAST_DECISIONS][:PER_PROGRAM]
        for name in sorted(names, key=key)[:count]:
            if name not in found:
                result = search_module(self.env, self.env.corpus.module(name), compiles=COMPILES)
                found[name] = [result.cost_after(COMPILES), result.baseline]
                yield


def changes(programs: Mapping[str, Mapping[str, Any]], policy: str) -> Results:
    """Return the statistics of a policy over objects, and over linked programs."""
    pairs, clusters, linked = [], [], []
    for name, builds in programs.items():
        built, plain = builds.get(policy, {}), builds[PLAIN]
        for module, size in plain.get("objects", {}).items() if "objects" in built else ():
            if module in built["objects"]:
                pairs.append((built["objects"][module], size))
                clusters.append(name)
        if "linked" in plain and "linked" in built:
            linked.append((built["linked"], plain["linked"]))
    return {"objects": facts(pairs, clusters), "linked": facts(linked)}


def main() -> None:
    """Measure the programs that the results lack, and print a line per target, level and policy."""
    parser = command_line(__doc__)
    parser.add_argument("--targets", default=",".join(TARGETS), help="targets, with commas between (default: all)")
    parser.add_argument("--levels", default=",".join(LEVELS), help="levels, with commas between (default: all)")
    parser.add_argument("--largest", type=int, help="KiB of bitcode of the largest program (default: unlimited)")
    parser.add_argument("--search", type=int, default=0, help="number of modules to search (default: 0)")
    parser.add_argument("--output", type=Path, default=RESULTS / "targets.json", help="path of the results")
    options = parser.parse_args()
    results = read_json(options.output, {"runs": {}, "searches": {}, "changes": {}})
    titles = {"target": "<14", "level": "<5", "policy": "<22", "modules": ">7", "mean": ">8.2%", "total": ">8.2%"}
    table = Table({**titles, "larger": ">6", "linked": ">8.2%"})
    for target, level in itertools.product(options.targets.split(","), options.levels.split(",")):
        key = f"{target} {level}"
        programs, searched = results["runs"].setdefault(key, {}), results["searches"].setdefault(key, {})
        with ExitStack() as resources:
            builds = Builds(f"programs@{level}@{target}", POLICIES, resources)
            for program in builds.programs(options.largest):
                found = programs.setdefault(program.name, {})
                for name in builds.objects:
                    if name not in found:
                        found[name] = builds.measure(program, name)
                        write_json(options.output, results)
            for _ in builds.search(programs, options.search, searched):
                write_json(options.output, results)
        rows = {policy: changes(programs, policy) for policy in POLICIES}
        if searched:
            rows["search"] = {"objects": facts([(after, before) for after, before in searched.values()])}
        for name, row in rows.items():
            results["changes"][f"{key} {name}"], objects = row, row["objects"]
            cells = (objects["modules"], objects["mean"], objects["total"], objects["worse"])
            table.row(target, level, name, *cells, row.get("linked", {"mean": math.nan})["mean"])
        write_json(options.output, results)


if __name__ == "__main__":
    main()
