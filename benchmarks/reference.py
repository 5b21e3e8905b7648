"""Trains, evaluates and searches the rows of docs/results/benchmark.md, and writes its results.

    python -m benchmarks.reference run --work runs/reference --jobs 2 [--minutes 60] [--only PATTERN] [--levels Oz Os]
    python -m benchmarks.reference write --work runs/reference

`run` does the rows of `reference_rows.py` on the whole test split. The same command resumes an interrupted run. Results
belong to the digest of a policy's file, so a changed bundled policy repeats only its rows. `write` adds the results
to docs/results/benchmark.json, in place of earlier ones; `make numbers` then writes them into the pages.

`run --policy "my model=tflite:DIR"` evaluates a policy of your own in the same way, as a row of that name.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.learning import METHODS, WORK, Method
from benchmarks.measuring import command_line, cpu_seconds
from benchmarks.reference_rows import ALL, BUNDLED, EXAMPLE, FAST, POLICIES, SEARCHES, TRAIN, Row, Search
from benchmarks.reference_table import add_rows, gather, weights_of
from mlgo_gym.cli.terminal import exit_on_signals
from mlgo_gym.evaluation.protocol import ENVIRONMENT, SEARCH_BUDGETS, SEEDS, SPLIT, protocol_corpus, search_modules
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.loading import policy_identity

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "benchmark.json"


@dataclass(frozen=True, slots=True)
class Task:
    """One row at one level with one seed.

    Attributes:
        row: the method.
        level: the level.
        seed: the seed.
        work: the folder of all results.
    """

    row: Row | Search
    level: str
    seed: int
    work: Path

    @property
    def method(self) -> Method | None:
        """The example that trains its policy, or None."""
        if not isinstance(self.row, Row) or self.row.policy != EXAMPLE:
            return None
        return next(each for each in METHODS if (each.level, each.name) == (self.level, self.row.name))

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
        text = self.row.policy if isinstance(self.row, Row) else self.row.start
        return text.format(bundled=BUNDLED[self.level], fast=FAST[self.level], model=self.model)

    @property
    def result(self) -> Path:
        """Path of its results, which belong to the current file of the policy."""
        digest = hashlib.sha256(policy_identity(self.policy).encode()).hexdigest()[:12]
        ending = ".jsonl" if isinstance(self.row, Search) else ""
        return self.work / self.level / f"{self.slug}-{digest}{ending}"

    def training(self, jobs: int) -> str:
        """Return the training command, or an empty text."""
        if self.method:
            return self.method.command.format(model=self.model, seed=self.seed)
        if not isinstance(self.row, Row):
            return ""
        command: str = self.row.train.format(
            level=self.level,
            seed=self.seed,
            jobs=jobs,
            model=self.model,
            part=",".join(f"{name}@{self.level}:train" for name in TRAIN),
            fast_file=f"mlgo_gym/policies/networks/{FAST[self.level]}.safetensors",
        )
        return command

    def measuring(self, jobs: int) -> str:
        """Return the command that evaluates or searches."""
        if isinstance(self.row, Search):
            names = " ".join(f"--module {shlex.quote(name)}" for name in self.searched())
            corpus = ",".join(f"{name}:{SPLIT}" for name in protocol_corpus(self.level).split(","))
            return (
                f"mlgo-gym search {ENVIRONMENT} --corpus {corpus} --algorithm {self.row.algorithm} "
                f"--start {self.policy} --compiles {max(SEARCH_BUDGETS)} --seed {self.seed} --jobs {jobs} "
                f"--output {self.result} {names}"
            )
        return (
            f"mlgo-gym evaluate {ENVIRONMENT} --corpus {protocol_corpus(self.level)} --split {SPLIT} "
            f"--policy {self.policy} --seed {self.seed} --jobs {jobs} --output {self.result}"
        )

    def searched(self) -> list[str]:
        """Return the modules of the searches; their decisions are counted once."""
        path = self.work / self.level / "search-modules.json"
        if not path.exists():
            env = make_environment(ENVIRONMENT, {"corpus": protocol_corpus(self.level)})
            chosen = search_modules(env.corpus.split(SPLIT), lambda name: bool(env.decisions(env.corpus.module(name))))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(chosen))
        names: list[str] = json.loads(path.read_text())
        return names

    @property
    def complete(self) -> Path:
        """File of the commands, which exists when the row is done."""
        return self.result.with_name(f"{self.result.name}.complete.json")


def tasks(options: argparse.Namespace, levels: list[str], only: str) -> Iterator[Task]:
    """Yield the selected rows: the first seed of all, then the others; searches last."""
    pairs = (text.split("=", 1) for text in options.policy)
    given = [Row(name, policy, budget=options.budget) for name, policy in pairs]
    for rows in ((*POLICIES, *given), SEARCHES):
        for seed in SEEDS:
            for row in rows:
                for level in row.levels:
                    if level in levels and seed < row.seeds and re.search(only, row.name):
                        yield Task(row, level, seed, options.work)


def named_policy(text: str) -> str:
    """Return an argument NAME=POLICY, or raise a ValueError."""
    if "=" not in text:
        raise ValueError(text)
    return text


class TimeOverError(Exception):
    """No time is left."""


def run(options: argparse.Namespace) -> None:
    """Do the rows that are not done."""
    end = time.monotonic() + 60 * options.minutes
    remaining = [task for task in tasks(options, options.levels, options.only) if not _done(task)]
    for number, task in enumerate(remaining):
        print(f"{len(remaining) - number} to do: -{task.level}, {task.row.name}, seed {task.seed}", flush=True)
        task.model.parent.mkdir(parents=True, exist_ok=True)
        start = cpu_seconds()
        training = task.training(options.jobs)
        if task.method:
            _, trained = task.method.train(WORK, task.seed)
        else:
            if training and not task.model.exists():
                _call(training, end)
            trained = cpu_seconds() - start
        measuring = task.measuring(options.jobs)
        _call(measuring, end)
        facts = {"train": training, "command": measuring, "train_cpu_seconds": round(trained, 1)}
        if task.method:
            facts["budget"] = task.method.budget
        if task.policy.startswith("mlp:"):
            facts["weights"] = weights_of(Path(task.policy[4:]))
        task.complete.write_text(json.dumps(facts, indent=1) + "\n")


def _done(task: Task) -> bool:
    return (not task.training(1) or task.model.exists()) and task.complete.exists()


def _call(command: str, end: float) -> None:
    """Run a command of this environment; interrupt it when the time is over."""
    words = shlex.split(command)
    program = Path(sys.executable).with_name(words[0])
    # Jobs in the background ignore SIGINT, and their children inherit that.
    interruptible = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        [program, *words[1:]], cwd=ROOT, stdout=subprocess.DEVNULL, preexec_fn=interruptible
    ) as process:
        try:
            # The exit status 1 means that an episode failed; the results are complete.
            if process.wait(max(0.0, end - time.monotonic())) not in (0, 1):
                raise SystemExit(f"exit status {process.returncode}: {command}")
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise TimeOverError from None
        except BaseException:
            process.send_signal(signal.SIGINT)
            raise


def write(options: argparse.Namespace) -> None:
    """Write the results as JSON; rows without results in the work folder stay as they are in the file."""
    found = [task for task in tasks(options, list(ALL), "") if _done(task)]
    searched = {task.level: task.searched() for task in found if isinstance(task.row, Search)}
    data = gather([(task.row, task.level, task.seed, task.result, task.complete) for task in found], searched)
    # Commands start in the root of the repository; results name no path of a machine.
    data = json.loads(json.dumps(data).replace(f"{options.work}/", "runs/reference/").replace(f"{ROOT}/", ""))
    data = add_rows(json.loads(RESULTS.read_text()), data) if RESULTS.exists() else data
    RESULTS.write_text(json.dumps(data, indent=None, separators=(",", ":")) + "\n")


def main() -> None:
    """Run the rows, or write their results."""
    parser = command_line(__doc__)
    actions = parser.add_subparsers(required=True)
    running = actions.add_parser("run", help="do the rows that are not done")
    running.add_argument("--jobs", type=int, default=2, help="number of processes (default: 2)")
    running.add_argument(
        "--minutes",
        type=float,
        default=1e6,
        help="stop after this time, or at the end of an example; the same command resumes",
    )
    running.add_argument("--only", default="", help="rows whose names match this regular expression")
    running.add_argument("--levels", nargs="+", choices=ALL, default=list(ALL))
    running.set_defaults(action=run)
    writing = actions.add_parser("write", help="write docs/results/benchmark.json")
    for each in (running, writing):
        each.add_argument("--work", type=Path, default=Path("runs/reference"), help="folder of all results")
        each.add_argument(
            "--policy", type=named_policy, action="append", default=[], metavar="NAME=POLICY", help="a row of your own"
        )
        each.add_argument("--budget", default="", help="budget of training of these rows, in words")
    writing.set_defaults(action=write)
    options = parser.parse_args()
    options.work = options.work.absolute()
    exit_on_signals()
    try:
        options.action(options)
    except TimeOverError:
        print("the time is over; the same command resumes")


if __name__ == "__main__":
    main()
