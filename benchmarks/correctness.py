"""Runs programs with known output that were compiled under random policies; prints the outcomes per environment.

    python -m benchmarks.correctness --policies 50 --output runs/correctness
    python -m benchmarks.correctness --target thumbv7em --environments mlgo/Inline-v0  # emulated

The programs are those of the corpora `builtin` and `programs`, which have a digest of their output.
Each is compiled under random policies for each environment, linked, and run. A policy takes clang's own choice except
with a probability of 2, 10, 50 or 100 %; then it takes a random legal action.

The results are lines of `runs.jsonl`; the same command resumes an interrupted run. A wrong output
names the modules whose objects cause it, and a crash has the command and the answers in hexadecimal bytes.
The exit status is 1 if there is one. `--summary` writes the counts by program into
docs/results/correctness.json.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import RESULTS, ROOT, Table, command_line, cpu_seconds, read_json, write_result
from mlgo_gym import open_corpus
from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.corpus.driver import DEFAULT_TARGET
from mlgo_gym.episode.metrics.counters import find_emulator, run_program
from mlgo_gym.episode.metrics.programs import Program, check_output, link_program, program_target, read_programs
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.make_env import compiler_environments, make_environment
from mlgo_gym.storage.json_files import JsonLines, read_json_lines
from mlgo_gym.tasks.task import Task, read_action

SHARES = (0.02, 0.1, 0.5, 1.0)
"""Probabilities with which a policy does not take clang's own choice."""

SUMMARY = RESULTS / "correctness.json"

TIMEOUT = 120.0

COUNTS = ("decisions", "objects", "changed")

Row = dict[str, Any]


def compile_randomly(
    compilation: Compilation, task: Task, chance: np.random.Generator, share: float, answers: list[bytes]
) -> bytes:
    """Compile under a random policy; return the object, and append the answers to a list.

    Raises:
        CompilerError: the compile failed.
    """

    def choose(decision: Decision) -> bytes:
        advice = task.default_advice(decision)
        if chance.random() < share:
            mask = task.action_mask(decision)
            action = task.action_space.sample() if mask is None else int(chance.choice(np.flatnonzero(mask)))
            advice = task.encode(decision, read_action(action, task.action_space)) or advice
        answers.append(advice)
        return advice

    with compilation.session(task.advisors) as session:
        return drive(session, choose, TIMEOUT).object_bytes


class Runs:
    """The runs of one program in one environment, with a folder for objects."""

    def __init__(self, program: Program, env_id: str, corpus: str, scratch: Path) -> None:
        self._program, self._scratch = program, scratch
        self._env_id, self._corpus = env_id, corpus
        self._env = make_environment(env_id, {"corpus": corpus})
        assert self._env.corpus.path is not None
        self._path = self._env.corpus.path
        target = program_target(program, self._path)
        self._emulator = find_emulator(target)
        self._target = DEFAULT_TARGET if target is None else target.name
        self._compilations = {name: self._env.compilation(self._env.corpus.module(name)) for name in program.modules}
        self.plain: dict[str, bytes] = {}
        for name, compilation in self._compilations.items():
            with compilation.session() as session:
                self.plain[name] = session.finish(TIMEOUT).object_bytes
        self._problems: dict[tuple[bytes, ...], str] = {}

    def problem(self, objects: Mapping[str, bytes]) -> str:
        """Return what is wrong with the program linked of some objects, or an empty text; equal objects run once."""
        key = tuple(objects[name] for name in self._program.modules)
        if key not in self._problems:
            self._problems[key] = self._problem(objects)
        return self._problems[key]

    def _problem(self, objects: Mapping[str, bytes]) -> str:
        files = {name: self._scratch / f"{number}.o" for number, name in enumerate(objects)}
        for name, file in files.items():
            file.write_bytes(objects[name])
        executable = self._scratch / "program"
        link_program(self._program, self._path, files, executable, self._env.toolchain)
        for run in self._program.runs:
            try:
                with tempfile.TemporaryDirectory() as folder:
                    words = [str(executable), *run.arguments]
                    count = run_program(words, Path(folder), timeout=TIMEOUT, emulator=self._emulator)
                check_output(self._program, run, count.output)
            except MlgoError as error:
                return str(error)
        return ""

    def run(self, seed: int) -> Row:
        """Compile, link and run under the random policy of a seed; return the outcome."""
        start = cpu_seconds()
        found = self._random(seed)
        return {**found, "cpu_seconds": round(cpu_seconds() - start, 3)}

    def _random(self, seed: int) -> Row:
        chance = np.random.default_rng([seed, len(self._program.name)])
        task = self._env.task
        task.action_space.seed(seed)
        objects: dict[str, bytes] = {}
        answers: dict[str, list[bytes]] = {name: [] for name in self._compilations}
        for name, compilation in self._compilations.items():
            try:
                objects[name] = compile_randomly(compilation, task, chance, SHARES[seed % len(SHARES)], answers[name])
            except CompilerError as error:
                details = {"command": error.command, "answers": b"".join(answers[name]).hex()}
                return {"outcome": "crashed", "module": name, "problem": error.message, **details}
        problem = self.problem(objects)
        changed = sum(data != self.plain[name] for name, data in objects.items())
        counts = {"decisions": sum(map(len, answers.values())), "objects": len(objects), "changed": changed}
        if not problem:
            return {"outcome": "correct", **counts}
        modules = [name for name in objects if self.problem({**self.plain, name: objects[name]})]
        return {"outcome": "wrong", "problem": problem, "modules": modules, **counts}

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def find_programs(target: str, names: Sequence[str] = ()) -> dict[str, tuple[str, Program]]:
    """Return the named programs for a target, by default all, each with the name of its corpus."""
    found: dict[str, tuple[str, Program]] = {}
    for corpus in (f"{name}@Oz@{target}" for name in ("builtin", "programs")):
        if not names or not found.keys() >= set(names):  # the second corpus is a download
            found |= {program.name: (corpus, program) for program in read_programs(open_corpus(corpus))}
    unknown = [name for name in names if name not in found]
    if unknown:
        sys.exit(f"expected programs of {', '.join(found)}, got {unknown[0]}")
    return {name: found[name] for name in names or found}


def summarize(target: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the counts by program, environment and target; those of the same keys are replaced."""

    def key(entry: Mapping[str, Any]) -> tuple[Any, ...]:
        return entry["program"], entry["environment"], entry.get("target", DEFAULT_TARGET)

    new: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        entry = {"program": row["program"], "environment": row["environment"], "target": target}
        counts = new.setdefault(key(entry), {**entry, **dict.fromkeys(("policies", "right", *COUNTS), 0)})
        counts["policies"] += 1
        counts["right"] += row["outcome"] == "correct"
        for name in COUNTS:
            counts[name] += row.get(name, 0)
    entries = {**{key(entry): entry for entry in read_json(SUMMARY, [])}, **new}
    write_result(SUMMARY, "[\n" + ",\n".join(map(json.dumps, entries.values())) + "\n]\n")


def show(rows: Sequence[Row]) -> int:
    """Print a line per environment, and all failures; return the exit status."""
    counts = dict.fromkeys(COUNTS, ">10")
    table = Table({"environment": "<24", "programs": ">8", "runs": ">6", **counts, "outcomes": "<30"})
    for env_id in dict.fromkeys(row["environment"] for row in rows):
        of_env = [row for row in rows if row["environment"] == env_id]
        sums = [sum(row.get(key, 0) for row in of_env) for key in COUNTS]
        outcomes = ", ".join(f"{count} {name}" for name, count in Counter(row["outcome"] for row in of_env).items())
        table.row(env_id, len({row["program"] for row in of_env}), len(of_env), *sums, outcomes)
    failures = [row for row in rows if row["outcome"] != "correct"]
    for row in failures:
        print(json.dumps(row))
    return int(bool(failures))


def main() -> None:
    """Compile, link, run, print."""
    parser = command_line(__doc__)
    parser.add_argument("--programs", nargs="+", metavar="PROGRAM", help="names of programs (default: all)")
    parser.add_argument("--environments", nargs="+", default=compiler_environments(), metavar="ID")
    parser.add_argument("--target", default=DEFAULT_TARGET, help=f"target of the programs (default: {DEFAULT_TARGET})")
    parser.add_argument("--policies", type=int, default=50, help="random policies per program (default: 50)")
    parser.add_argument("--output", type=Path, default=Path("runs/correctness"), help="folder of the results")
    parser.add_argument("--summary", action="store_true", help=f"write the counts into {SUMMARY.relative_to(ROOT)}")
    options = parser.parse_args()
    path = options.output / "runs.jsonl"
    with tempfile.TemporaryDirectory(prefix="mlgo-gym-correctness-") as name:
        scratch = Path(name)
        options.output.mkdir(parents=True, exist_ok=True)
        rows: list[Row] = [row for _, row in read_json_lines(path)]
        done = {(row["program"], row["environment"], row["seed"]) for row in rows}
        with closing(JsonLines(path)) as lines:
            for program_name, (corpus, program) in find_programs(options.target, options.programs or ()).items():
                for env_id in options.environments:
                    missing = [seed for seed in range(options.policies) if (program_name, env_id, seed) not in done]
                    if not missing:
                        continue
                    runs = Runs(program, env_id, corpus, scratch)
                    if problem := runs.problem(runs.plain):
                        sys.exit(f"{program_name}, compiled by plain clang: {problem}")
                    for seed in missing:
                        names_of_run = {"program": program_name, "environment": env_id, "seed": seed}
                        rows.append({**names_of_run, **runs.run(seed)})
                        lines.append(rows[-1])
                    runs.close()
        if options.summary:
            summarize(options.target, rows)
        sys.exit(show(rows))


if __name__ == "__main__":
    main()
