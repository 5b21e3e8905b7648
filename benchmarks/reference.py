"""The table of docs/benchmark.md: methods on the protocol, each by its command.

    python -m benchmarks.reference run --work runs/reference --jobs 2 [--minutes 60] [--only PATTERN] [--levels Oz Os]
    python -m benchmarks.reference write --work runs/reference

`run` goes through the rows of `reference_rows.py`: it trains what has to be trained, evaluates on the whole test split,
and searches. It can be ended at any time, and goes on where it was; what a policy's file gives is kept by the file's
digest, so that another network in the box makes its rows again and no other. `write` puts what there is into
docs/results/benchmark.json, and the tables into docs/benchmark.md; without --work it only writes the tables again.
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
from typing import Any

from benchmarks.reference_rows import ALL, BOX, PLAIN, POLICIES, SEARCHES, TRAIN, Row, Search
from benchmarks.reference_table import gather, tables
from mlgo_gym.cli.termination import tidy_up_when_told_to_end
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.evaluation.protocol import ENVIRONMENT, SEARCH_BUDGETS, SEEDS, SPLIT, protocol_corpus, search_modules
from mlgo_gym.policies.loading import policy_identity

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmark.md"
RESULTS = ROOT / "docs" / "results" / "benchmark.json"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"


@dataclass(frozen=True, slots=True)
class Task:
    """One row at one level with one seed.

    Attributes:
        row: the method.
        level: the level.
        seed: the seed.
        work: the folder that everything is kept in.
    """

    row: Row | Search
    level: str
    seed: int
    work: Path

    @property
    def slug(self) -> str:
        """What its files are called."""
        name = re.sub(r"[^a-z0-9]+", "-", self.row.name.lower()).strip("-")
        return f"{name[:40]}-{self.seed}"

    @property
    def model(self) -> Path:
        """The file of the network that is trained."""
        return self.work / self.level / f"{self.slug}.safetensors"

    @property
    def policy(self) -> str:
        """What is evaluated, or where a search starts."""
        text = self.row.policy if isinstance(self.row, Row) else self.row.start
        return text.format(box=BOX[self.level], plain=PLAIN[self.level], model=self.model)

    @property
    def result(self) -> Path:
        """Where its results are: they belong to what the policy's file is now."""
        digest = hashlib.sha256(policy_identity(self.policy).encode()).hexdigest()[:12]
        ending = ".jsonl" if isinstance(self.row, Search) else ""
        return self.work / self.level / f"{self.slug}-{digest}{ending}"

    def training(self, jobs: int) -> str:
        """Return the command that makes the network; the empty text if there is none to make."""
        if not isinstance(self.row, Row):
            return ""
        command: str = self.row.train.format(
            level=self.level,
            seed=self.seed,
            jobs=jobs,
            model=self.model,
            corpus=",".join(f"{name}@{self.level}" for name in TRAIN),
            part=",".join(f"{name}@{self.level}:train" for name in TRAIN),
            plain_file=f"mlgo_gym/policies/box/{PLAIN[self.level]}.safetensors",
        )
        return command

    def measuring(self, jobs: int) -> str:
        """Return the command that measures it."""
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
        """Return the modules of the searches, counted once and kept."""
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
        """The file that says that it is done, with the commands that did it."""
        return self.result.with_name(f"{self.result.name}.complete.json")


def tasks(work: Path, levels: list[str], only: str) -> Iterator[Task]:
    """Give the rows that are asked for: the first seed of all, then the others, and searches last."""
    for rows in (POLICIES, SEARCHES):
        for seed in SEEDS:
            for row in rows:
                for level in row.levels:
                    if level in levels and seed < row.seeds and re.search(only, row.name):
                        yield Task(row, level, seed, work)


class LateError(Exception):
    """There is no time left."""


def run(options: argparse.Namespace) -> None:
    """Do what is not done yet."""
    until = time.monotonic() + 60 * options.minutes
    waiting = [task for task in tasks(options.work, options.levels, options.only) if not _done(task)]
    for number, task in enumerate(waiting):
        print(f"{len(waiting) - number} to go: -{task.level}, {task.row.name}, seed {task.seed}", flush=True)
        task.model.parent.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        training = task.training(options.jobs)
        if training and not task.model.exists():
            _call(training, until)
        trained = time.monotonic() - began
        measuring = task.measuring(options.jobs)
        _call(measuring, until)
        facts = {"train": training, "command": measuring, "train_seconds": round(trained, 1)}
        task.complete.write_text(json.dumps(facts, indent=1) + "\n")


def _done(task: Task) -> bool:
    named = isinstance(task.row, Row) and task.row.train
    return (not named or task.model.exists()) and task.complete.exists()


def _call(command: str, until: float) -> None:
    """Run a command of this environment, and interrupt it when the time is over."""
    words = shlex.split(command)
    program = Path(sys.executable).with_name(words[0])
    # A job in the background ignores Ctrl-C, and so would what it starts.
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen([program, *words[1:]], cwd=ROOT, stdout=subprocess.DEVNULL, preexec_fn=heard) as process:
        try:
            # 1 is said of results with a failed episode, which are results.
            if process.wait(max(0.0, until - time.monotonic())) not in (0, 1):
                raise SystemExit(f"exit status {process.returncode}: {command}")
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise LateError from None
        except BaseException:
            process.send_signal(signal.SIGINT)
            raise


def write(options: argparse.Namespace) -> None:
    """Write what there is as JSON, and the tables into the page."""
    if options.work is not None:
        found = [task for task in tasks(options.work, list(ALL), "") if _done(task)]
        searched = {task.level: task.searched() for task in found if isinstance(task.row, Search)}
        data = gather([(task.row, task.level, task.seed, task.result, task.complete) for task in found], searched)
        data = json.loads(json.dumps(data).replace(f"{options.work}/", "runs/reference/"))
        RESULTS.write_text(json.dumps(data, indent=None, separators=(",", ":")) + "\n")
    results: dict[str, Any] = json.loads(RESULTS.read_text())
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{tables(results)}{END}{rest.partition(END)[2]}")


def main() -> None:
    """Run the rows, or write them down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(required=True)
    running = actions.add_parser("run", help="train, evaluate and search what is not there yet")
    running.add_argument("--work", type=Path, default=Path("runs/reference"), help="the folder of all results")
    running.add_argument("--jobs", type=int, default=2, help="how many processes")
    running.add_argument("--minutes", type=float, default=1e6, help="end after so many; the same command goes on")
    running.add_argument("--only", default="", help="rows whose names match this regular expression")
    running.add_argument("--levels", nargs="+", choices=ALL, default=list(ALL))
    running.set_defaults(action=run)
    writing = actions.add_parser("write", help="write docs/results/benchmark.json and the tables of docs/benchmark.md")
    writing.add_argument("--work", type=Path, help="the folder of all results; without it, only the tables")
    writing.set_defaults(action=write)
    options = parser.parse_args()
    if options.work is not None:
        options.work = options.work.absolute()
    tidy_up_when_told_to_end()
    try:
        options.action(options)
    except LateError:
        print("the time is over; the same command goes on")


if __name__ == "__main__":
    main()
