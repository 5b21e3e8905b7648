"""Trains, evaluates and searches the rows of docs/results/benchmark.md, and writes its results.

    python -m benchmarks.reference run --work runs/reference --jobs 2 [--only PATTERN] [--levels Oz Os]
    python -m benchmarks.reference write --work runs/reference

`run` does the rows of `protocol.py` on its modules. The same command resumes an interrupted run. Results
belong to the digest of a policy's file, so a changed policy repeats only its rows. `write` adds the results
to docs/results/benchmark.json, in place of earlier ones; `make numbers` then writes them into the pages.

`run --policy "my model=tflite:DIR"` evaluates a policy of your own in the same way, as a row of that name.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import protocol
from benchmarks.learning import METHODS, WORK, Method
from benchmarks.measuring import RESULTS, ROOT, command_line, cpu_seconds, read_json, write_json, write_result
from benchmarks.protocol import ENVIRONMENT, LEVELS, Row, protocol_corpus
from mlgo_gym import Execution, __version__, evaluate
from mlgo_gym.corpus.opening import BENCHMARK
from mlgo_gym.evaluation.record import DONE
from mlgo_gym.evaluation.result import load_result
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.loading import policy_identity
from mlgo_gym.policies.network import Network
from mlgo_gym.search.corpus_search import read_results
from mlgo_gym.tasks.measurement import worst_cost
from mlgo_gym.training.pipeline import drawn_modules

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
    def policy(self) -> str:
        """The evaluated policy, or the policy that a search starts from."""
        if self.method:
            return self.method.trained(WORK, self.seed)
        return self.row.policy

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
        return (not self.method or Path(self.policy.removeprefix("mlp:")).exists()) and self.complete.exists()

    def searching(self, jobs: int) -> str:
        """Return the command of a search."""
        names = " ".join(f"--module {shlex.quote(name)}" for name in self.searched())
        return (
            f"mlgo-gym search {ENVIRONMENT} --corpus {BENCHMARK}@{self.level}:{protocol.SPLIT} "
            f"--start {self.policy} --compiles {protocol.SEARCH_COMPILES} --seed {self.seed} --jobs {jobs} "
            f"--output {self.result} {names}"
        )

    def searched(self) -> list[str]:
        """Return the modules of the searches; their decisions are counted once."""
        path = self.work / self.level / "search-modules.json"
        if not path.exists():
            corpus = protocol_corpus(self.level)
            env = make_environment(ENVIRONMENT, {"corpus": corpus})
            corpus = corpus.subset([name for name in corpus.names if env.decisions(corpus.module(name))])
            write_json(path, drawn_modules(corpus, 0, **protocol.SEARCHED))
        found: list[str] = json.loads(path.read_text())
        return found

    def run(self, jobs: int) -> None:
        """Train and measure."""
        (self.work / self.level).mkdir(parents=True, exist_ok=True)
        row: dict[str, Any] = {"train": "", "train_cpu_seconds": 0.0, "policy": self.policy}
        if self.method:
            _, trained = self.method.train(WORK, self.seed)
            row["train"] = self.method.training(Path(self.policy.removeprefix("mlp:")), self.seed)
            row |= {"train_cpu_seconds": round(trained, 1), "budget": self.method.budget}
        start = cpu_seconds()
        if self.row.searches:
            call(self.searching(jobs))
        else:
            execution, corpus = Execution(jobs=jobs), protocol_corpus(self.level)
            policies, output = [self.policy], self.result
            evaluate(ENVIRONMENT, policies=policies, corpus=corpus, seed=self.seed, execution=execution, output=output)
        row["cpu_seconds"] = round(cpu_seconds() - start, 1)
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
        print(f"results: {task.result}", flush=True)


def write(options: argparse.Namespace) -> None:
    """Write the results as JSON; rows of this protocol without results in the work folder stay as they are."""
    data = read_json(OUTPUT, {})
    if data.get("protocol") != protocol.VERSION:
        data = {"protocol": protocol.VERSION, "levels": {level: {} for level in LEVELS}, "rows": []}
    rows = {key(row): row for row in data["rows"] if not row.get("of")}
    for task in (task for task in tasks(options, LEVELS, "") if task.done):
        row = searched(task) if task.row.searches else evaluated(task, data["levels"][task.level])
        rows[key(row)] = row
    # Commands start in the root of the repository; results name no path of a machine.
    data["rows"] = [*rows.values(), *smallest(data["levels"], list(rows.values()))]
    text = json.dumps({**data, "mlgo_gym": __version__}).replace(f"{options.work}/", "runs/reference/")
    text = text.replace(f"{ROOT}/", "")
    write_result(OUTPUT, json.dumps(json.loads(text), separators=(",", ":")) + "\n")


def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tells a row from the others."""
    return tuple(row[name] for name in ("level", "name", "seed", "compiles"))


def evaluated(task: Task, level: dict[str, Any]) -> dict[str, Any]:
    """Return the row of an evaluation, in which a failed compile has the worst cost; add its modules to the level.

    Raises:
        SystemExit: plain clang made another size of a module in an earlier row.
    """
    result = load_result(task.result)
    level["clang"], modules = result.configuration.clang, level.setdefault("modules", {})
    episodes = [episode for episode in result.episodes if episode.status == DONE]
    if task.policy.startswith("clang:"):  # Plain clang has results of modules without decisions, too.
        episodes = [episode for episode in episodes if episode.module in modules]
    sizes: dict[str, float] = {}
    for episode in episodes:
        sizes[episode.module], before = episode.metrics["text"]
        facts_of = [episode.project, result.language(episode.module), before]
        if modules.setdefault(episode.module, facts_of) != facts_of:
            raise SystemExit(
                f"expected {modules[episode.module]} for {episode.module}, got {facts_of}; delete the rows"
            )
    failed = {episode.module for episode in result.failures}
    sizes |= {name: worst_cost(modules[name][2]) for name in failed}
    counts = {"failures": len(failed), "decisions": sum(episode.decisions for episode in episodes)}
    row = {"level": task.level, "name": task.row.name, "seed": task.seed, "compiles": 1, "budget": task.row.budget}
    return {**row, **read_json(task.complete, {}), **counts, "sizes": {name: int(size) for name, size in sizes.items()}}


def searched(task: Task) -> dict[str, Any]:
    """Return the row of a search."""
    _, results = read_results(task.result)
    sizes = {name: int(result.cost_after(protocol.SEARCH_COMPILES)) for (name, _), result in results.items()}
    row = {"level": task.level, "name": task.row.name, "seed": task.seed, "compiles": protocol.SEARCH_COMPILES}
    failures = len(task.searched()) - sum(result.verified for result in results.values())
    return {**row, **read_json(task.complete, {}), "search": True, "failures": failures, "sizes": sizes}


def smallest(levels: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of several policies: the smallest object of each module, that of plain clang included."""
    first = [row for row in rows if (row["seed"], row["compiles"]) == (0, 1)]
    by_policy = {(row["level"], row["policy"]): row["sizes"] for row in first}
    for level, (name, policies) in itertools.product(LEVELS, protocol.OF_SEVERAL.items()):
        found = [by_policy[level, policy] for policy in policies if (level, policy) in by_policy]
        if len(found) == len(policies):
            modules = levels[level]["modules"].items()
            sizes = {module: min(before, *(each[module] for each in found)) for module, (*_, before) in modules}
            row = {"level": level, "name": name, "seed": 0, "compiles": len(policies), "of": len(policies)}
            yield {**row, "sizes": sizes}


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
