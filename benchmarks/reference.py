"""Trains, evaluates and searches the rows of docs/results/benchmark.md, and writes its results.

    python -m benchmarks.reference run --work runs/reference --jobs 2 [--only PATTERN] [--levels Oz Os]
    python -m benchmarks.reference write --work runs/reference

`run` does the rows of `protocol.py` on the whole test split. The same command resumes an interrupted run. Results
belong to the digest of a policy's file, so a changed policy repeats only its rows. `write` adds the results
to docs/results/benchmark.json, in place of earlier ones; `make numbers` then writes them into the pages.

`run --policy "my model=tflite:DIR"` evaluates a policy of your own in the same way, as a row of that name.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import protocol
from benchmarks.learning import METHODS, WORK, Method
from benchmarks.measuring import (
    RESULTS,
    ROOT,
    Sizes,
    command_line,
    cpu_seconds,
    facts,
    read_json,
    smallest_sizes,
    write_result,
)
from benchmarks.protocol import ENVIRONMENT, LEVELS, SPLIT, Row, protocol_corpus, search_modules
from mlgo_gym import __version__
from mlgo_gym.evaluation.record import DONE
from mlgo_gym.evaluation.result import load_result
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.loading import policy_identity
from mlgo_gym.policies.network import Network
from mlgo_gym.search import SearchResult
from mlgo_gym.storage.json_files import read_json_lines
from mlgo_gym.tasks.measurement import worst_cost

OUTPUT = RESULTS / "benchmark.json"


@dataclass(frozen=True, slots=True)
class Task:
    """One row at one level with one seed.

    Attributes:
        row: the method.
        level: the level.
        seed: the seed.
        work: the folder of all results.
    """

    row: Row
    level: str
    seed: int
    work: Path

    @property
    def method(self) -> Method | None:
        """The example that trains its policy, or None."""
        if self.row.policy != protocol.EXAMPLE:
            return None
        return next(method for method in METHODS if (method.level, method.name) == (self.level, self.row.name))

    @property
    def slug(self) -> str:
        """Name of its files."""
        name = re.sub(r"[^a-z0-9]+", "-", self.row.name.lower()).strip("-")
        return f"{name[:40]}-{self.seed}"

    @property
    def model(self) -> Path:
        """File of the trained network."""
        if self.method:
            return Path(self.policy.partition(":")[2])
        return self.work / self.level / f"{self.slug}.safetensors"

    @property
    def policy(self) -> str:
        """The evaluated policy, or the policy that a search starts from."""
        if self.method:
            return self.method.trained(WORK, self.seed)
        return self.row.policy.format(model=self.model)

    @property
    def result(self) -> Path:
        """Path of its results, which belong to the current file of the policy."""
        digest = hashlib.sha256(policy_identity(self.policy).encode()).hexdigest()[:12]
        ending = ".jsonl" if self.row.searches else ""
        return self.work / self.level / f"{self.slug}-{digest}{ending}"

    @property
    def complete(self) -> Path:
        """File of the commands, which exists when the row is done."""
        return self.result.with_name(f"{self.result.name}.complete.json")

    @property
    def done(self) -> bool:
        """Whether it needs no more work."""
        return (not self.training() or self.model.exists()) and self.complete.exists()

    def training(self) -> str:
        """Return the training command, or an empty text."""
        if self.method:
            return self.method.training(self.model, self.seed)
        return self.row.train.format(
            seed=self.seed, model=self.model, part=",".join(f"{name}@{self.level}:train" for name in protocol.TRAIN)
        )

    def measuring(self, jobs: int) -> str:
        """Return the command that evaluates or searches."""
        corpus, common = protocol_corpus(self.level), f"--seed {self.seed} --jobs {jobs} --output {self.result}"
        if not self.row.searches:
            return f"mlgo-gym evaluate {ENVIRONMENT} --corpus {corpus} --split {SPLIT} --policy {self.policy} {common}"
        names = " ".join(f"--module {shlex.quote(name)}" for name in self.searched())
        parts = ",".join(f"{name}:{SPLIT}" for name in corpus.split(","))
        return (
            f"mlgo-gym search {ENVIRONMENT} --corpus {parts} --start {self.policy} "
            f"--compiles {max(protocol.SEARCH_BUDGETS)} {common} {names}"
        )

    def searched(self) -> list[str]:
        """Return the modules of the searches; their decisions are counted once."""
        path = self.work / self.level / "search-modules.json"
        if not path.exists():
            env = make_environment(ENVIRONMENT, {"corpus": protocol_corpus(self.level)})
            names = search_modules(env.corpus.split(SPLIT), lambda name: bool(env.decisions(env.corpus.module(name))))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(names))
        found: list[str] = json.loads(path.read_text())
        return found

    def run(self, jobs: int) -> None:
        """Train and measure."""
        self.model.parent.mkdir(parents=True, exist_ok=True)
        training, measuring, start = self.training(), self.measuring(jobs), cpu_seconds()
        if self.method:
            _, trained = self.method.train(WORK, self.seed)
        else:
            if training and not self.model.exists():
                call(training)
            trained = cpu_seconds() - start
        call(measuring)
        row: dict[str, Any] = {"train": training, "command": measuring, "train_cpu_seconds": round(trained, 1)}
        if self.method:
            row["budget"] = self.method.budget
        if self.policy.startswith("mlp:"):
            network = Network.load(Path(self.policy[4:]))
            row["weights"] = sum(part.size for part in (*network.weights, *network.biases))
        self.complete.write_text(json.dumps(row, indent=1) + "\n")


def call(command: str) -> None:
    """Run a command of this environment; its exit status 1 means that an episode failed, and results are complete."""
    words = shlex.split(command)
    program = Path(sys.executable).with_name(words[0])
    done = subprocess.run([program, *words[1:]], cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"exit status {done.returncode}: {command}")


def tasks(options: argparse.Namespace, levels: Sequence[str], only: str) -> Iterator[Task]:
    """Yield the selected rows: the first seed of all, then the others; searches last."""
    own = [Row(name, policy, budget=options.budget) for name, policy in options.policy]
    for rows in ((*protocol.POLICIES, *own), protocol.SEARCHES):
        for seed in protocol.SEEDS:
            for row in rows:
                for level in row.levels:
                    if level in levels and seed < row.seeds and re.search(only, row.name):
                        yield Task(row, level, seed, options.work)


def run(options: argparse.Namespace) -> None:
    """Do the rows that are not done."""
    remaining = [task for task in tasks(options, options.levels, options.only) if not task.done]
    for number, task in enumerate(remaining):
        print(f"{len(remaining) - number} to do: -{task.level}, {task.row.name}, seed {task.seed}", flush=True)
        task.run(options.jobs)


def write(options: argparse.Namespace) -> None:
    """Write the results as JSON; rows without results in the work folder stay as they are in the file."""
    finished = [task for task in tasks(options, LEVELS, "") if task.done]
    data = gather(finished, {task.level: task.searched() for task in finished if task.row.searches})
    # Commands start in the root of the repository; results name no path of a machine.
    data = json.loads(json.dumps(data).replace(f"{options.work}/", "runs/reference/").replace(f"{ROOT}/", ""))
    if OUTPUT.exists():
        data = add_rows(read_json(OUTPUT, {}), data)
    write_result(OUTPUT, json.dumps(data, indent=None, separators=(",", ":")) + "\n")


class Gathered:
    """Results of all rows as JSON-able data."""

    def __init__(self, searched: Mapping[str, Sequence[str]]) -> None:
        self.searched = searched
        self.rows: list[dict[str, Any]] = []
        self.baselines: dict[str, dict[str, float]] = {level: {} for level in LEVELS}
        self.by_policy: dict[str, dict[str, Sizes]] = {level: {} for level in LEVELS}
        self.projects: dict[str, str] = {}
        self.clang = ""

    def figures(self, sizes: Sizes) -> dict[str, Any]:
        """Return the facts and the size of each module."""
        found = facts([sizes[name] for name in sorted(sizes)], [self.projects[name] for name in sorted(sizes)])
        return {**found, "sizes": {name: int(size) for name, (size, _) in sizes.items()}}

    def add(self, row: Mapping[str, Any], sizes: Sizes) -> None:
        """Add a row of a policy, with its part on the modules of the searches."""
        part = {name: sizes[name] for name in self.searched.get(row["level"], ()) if name in sizes}
        self.rows.append({**row, **self.figures(sizes), "searched": self.figures(part) if part else None})

    def add_search(self, row: Mapping[str, Any], path: Path) -> None:
        """Add a row for each budget of a search."""
        results = [SearchResult.from_json(value) for _, value in list(read_json_lines(path))[1:]]
        self.projects = {result.module: result.module.partition("/")[0] for result in results} | self.projects
        failures = len(self.searched[row["level"]]) - sum(result.verified for result in results)
        for budget in protocol.SEARCH_BUDGETS:
            sizes = {each.module: (each.cost_after(budget), each.baseline) for each in results if not each.error}
            more = {"compiles": budget, "failures": failures, "search": True}
            self.rows.append({**row, **more, **self.figures(sizes)})

    def add_evaluation(self, row: Mapping[str, Any], task: Task) -> None:
        """Add a row of an evaluation; a failed compile has the worst cost."""
        result = load_result(task.result)
        self.clang = result.configuration.clang
        episodes = [episode for episode in result.episodes if episode.status == DONE]
        if task.policy.startswith("clang:"):  # Plain clang has results of modules without decisions, too.
            env = make_environment(ENVIRONMENT, {"corpus": protocol_corpus(task.level)})
            episodes = [episode for episode in episodes if env.decisions(env.corpus.module(episode.module))]
        self.projects |= {episode.module: episode.project for episode in episodes}
        sizes: Sizes = {episode.module: episode.metrics["text"] for episode in episodes}
        known = self.baselines[task.level]
        known |= {name: before for name, (_, before) in sizes.items()}
        failed = {episode.module for episode in result.failures}
        sizes |= {name: (worst_cost(before), before) for name, before in known.items() if name in failed}
        if not task.row.train and task.row.seeds == 1:
            self.by_policy[task.level][task.row.policy] = sizes
        seconds = round(sum(episode.seconds for episode in episodes), 1)
        self.add({"budget": task.row.budget, **row, "failures": len(failed), "compile_seconds": seconds}, sizes)


def gather(finished: Sequence[Task], searched: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the results; each row has the size of each of `modules`, or null."""
    found = Gathered(searched)
    for task in finished:
        row = {"level": task.level, "name": task.row.name, "seed": task.seed, **read_json(task.complete, {})}
        if task.row.searches:
            found.add_search(row, task.result)
        else:
            found.add_evaluation(row, task)
    for level, sizes in found.by_policy.items():
        for name, policies in protocol.OF_SEVERAL.items():
            if sizes.keys() >= set(policies):
                row = {"level": level, "name": name, "seed": 0, "failures": 0, "of": len(policies)}
                found.add(row, smallest_sizes([sizes[policy] for policy in policies]))
    names = {level: sorted(before) for level, before in found.baselines.items()}
    for row in found.rows:
        row["sizes"] = [row["sizes"].get(name) for name in names[row["level"]]]
    sizes_of_clang = {level: [found.baselines[level][name] for name in names[level]] for level in LEVELS}
    versions = {"protocol": protocol.VERSION, "mlgo_gym": __version__, "clang": found.clang}
    return {**versions, "modules": names, "clang_sizes": sizes_of_clang, "searched": searched, "rows": found.rows}


def add_rows(known: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return earlier results with new rows, which replace earlier ones of the same level, method, seed and compiles.

    Raises:
        SystemExit: the modules or their sizes by plain clang differ.
    """
    joined = {**found, "modules": {}, "clang_sizes": {}}
    for level in LEVELS:
        new, old = ([data[key].get(level) for key in ("modules", "clang_sizes")] for data in (found, known))
        if new[0] and old[0] and new != old:
            raise SystemExit(f"expected the modules of the earlier rows at -{level}, got others; delete these rows")
        joined["modules"][level], joined["clang_sizes"][level] = new if new[0] else old

    def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in ("level", "name", "seed", "compiles"))

    keys = {key(row) for row in found["rows"]}
    rows = [*(row for row in known["rows"] if key(row) not in keys), *found["rows"]]
    return {**joined, "searched": {**known["searched"], **found["searched"]}, "rows": rows}


def main() -> None:
    """Run the rows, or write their results."""
    parser = command_line(__doc__)
    parser.add_argument("action", choices=("run", "write"), help="do the missing rows, or write their results")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes (default: 2)")
    parser.add_argument("--only", default="", help="rows whose names match this regular expression")
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=list(LEVELS))
    parser.add_argument("--work", type=Path, default=Path("runs/reference"), help="folder of all results")
    parser.add_argument(
        "--policy",
        type=lambda text: text.split("=", 1),
        action="append",
        default=[],
        metavar="NAME=POLICY",
        help="a row of your own",
    )
    parser.add_argument("--budget", default="", help="budget of training of these rows, in words")
    options = parser.parse_args()
    options.work = options.work.absolute()
    (run if options.action == "run" else write)(options)


if __name__ == "__main__":
    main()
