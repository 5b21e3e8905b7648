"""Runs programs with known output that were compiled under random policies; prints the outcomes per environment.

    python -m benchmarks.correctness --policies 50 --output runs/correctness
    python -m benchmarks.correctness --target thumbv7em --environments mlgo/Inline-v0 --learned inline-oz  # emulated

The programs are those of the corpora `builtin` and `programs`, which have a digest of their output.
Each is compiled under random policies for each environment, linked, and run. A policy takes clang's own choice except
with a probability of 2, 10, 50 or 100 %; then it takes a random legal action. `--learned` adds bundled policies.

The results are lines of `runs.jsonl`; the same command resumes an interrupted run. For a wrong output the program finds
the module whose object causes it. That module and each crash are kept as a reproducer with its decisions (`mlgo-gym
reproduce FOLDER --trust-flags`). The exit status is 1 if there is one. `--summary` writes the counts by program into
docs/results/correctness.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.measuring import Table, command_line, cpu_seconds
from mlgo_gym import open_corpus
from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.corpus.targets import DEFAULT_TARGET
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.reproducer import WRONG, keep_crash, keep_reproducer
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.evaluation.compiled_objects import PolicyObjects
from mlgo_gym.evaluation.evaluated_policies import EvaluatedPolicies, RunnerSettings
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.make_env import compiler_environments
from mlgo_gym.storage.json_lines import JsonLines, read_json_lines
from mlgo_gym.tasks.action import read_action
from mlgo_gym.tasks.metrics import Program, link_program, read_programs
from mlgo_gym.tasks.metrics.counters import find_emulator, run_program
from mlgo_gym.tasks.metrics.programs import check_output, program_target
from mlgo_gym.tasks.task import Task

ROOT = Path(__file__).parents[1]

SHARES = (0.02, 0.1, 0.5, 1.0)
"""Probabilities with which a policy does not take clang's own choice."""

SUMMARY = ROOT / "docs" / "results" / "correctness.json"

TIMEOUT = 120.0

CORPORA = ("builtin", "programs")

_COUNTS = ("decisions", "objects", "changed")


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
    """The runs of one program.

    Args:
        program: the program.
        corpus: name of its corpus.
        scratch: folder of objects and links.
        reproducers: folder of the reproducers.
    """

    def __init__(self, program: Program, corpus: str, scratch: Path, reproducers: Path) -> None:
        self._program = program
        self._corpus = open_corpus(corpus)
        assert self._corpus.path is not None
        target = program_target(program, self._corpus.path)
        self._emulator = None if target is None else find_emulator(target)
        self._target = DEFAULT_TARGET if target is None else target.name
        self._scratch = scratch
        self._reproducers = reproducers
        self._plain: dict[str, bytes] = {}
        self._problems: dict[bytes, str] = {}

    def problem(self, objects: Mapping[str, bytes]) -> str:
        """Return what is wrong with the program linked of some objects, or an empty text; equal objects run once."""
        key = hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in objects.values())).digest()
        if key not in self._problems:
            self._problems[key] = self._problem(objects)
        return self._problems[key]

    def _problem(self, objects: Mapping[str, bytes]) -> str:
        corpus = self._corpus.path
        assert corpus is not None
        files = {name: self._scratch / f"{number}.o" for number, name in enumerate(objects)}
        for name, file in files.items():
            file.write_bytes(objects[name])
        executable = self._scratch / "program"
        link_program(self._program, corpus, files, executable, find_toolchain())
        for run in self._program.runs:
            try:
                with tempfile.TemporaryDirectory() as folder:
                    words = [str(executable), *run.arguments]
                    count = run_program(words, Path(folder), timeout=TIMEOUT, emulator=self._emulator)
                check_output(self._program, run, count.output)
            except MlgoError as error:
                return str(error)
        return ""

    def _compilations(self, env: CompilerEnv) -> dict[str, Compilation]:
        names = self._program.modules
        return {name: env.compilation(env.corpus.module(name)) for name in names}

    def plain(self, env: CompilerEnv) -> dict[str, bytes]:
        """Return the objects of plain clang by module; each is compiled once."""
        for name, compilation in self._compilations(env).items():
            if name not in self._plain:
                with compilation.session() as session:
                    self._plain[name] = session.finish(TIMEOUT).object_bytes
        return self._plain

    def run(self, env: CompilerEnv, seed: int) -> dict[str, Any]:
        """Compile, link and run under one random policy; return the outcome."""
        chance = np.random.default_rng([seed, len(self._program.name)])
        env.task.action_space.seed(seed)
        share = SHARES[seed % len(SHARES)]
        objects: dict[str, bytes] = {}
        answers: dict[str, list[bytes]] = {}
        compilations = self._compilations(env)
        for name, compilation in compilations.items():
            answers[name] = []
            try:
                objects[name] = compile_randomly(compilation, env.task, chance, share, answers[name])
            except CompilerError as error:
                os.environ["MLGO_REPRODUCERS"] = str(self._reproducers)
                folder = keep_crash(compilation, env.task.advisors, answers[name], error)
                return {"outcome": "crashed", "module": name, "problem": error.message, "reproducer": str(folder)}
        plain = self.plain(env)
        counts = {"decisions": sum(map(len, answers.values())), **self._counts(objects, plain)}
        problem = self.problem(objects)
        if not problem:
            return {"outcome": "correct", **counts}
        for name, compilation in compilations.items():
            if self.problem({**plain, name: objects[name]}):
                words = [f"PYTHONPATH={ROOT}", sys.executable, "-m", "benchmarks.correctness"]
                options = ["--target", self._target, "--check", self._program.name, name, "{object}"]
                test = ("env", *words, *options)
                folder = keep_reproducer(
                    self._reproducers,
                    compilation,
                    env.task.advisors,
                    answers[name],
                    kind=WRONG,
                    message=problem,
                    test=test,
                )
                return {"outcome": "wrong", "module": name, "problem": problem, "reproducer": str(folder), **counts}
        return {"outcome": "wrong with several objects", "problem": problem, **counts}

    @staticmethod
    def _counts(objects: Mapping[str, bytes], plain: Mapping[str, bytes]) -> dict[str, int]:
        return {"objects": len(objects), "changed": sum(objects[name] != plain[name] for name in objects)}

    def run_learned(self, env_id: str, env: CompilerEnv, policy: str) -> dict[str, Any]:
        """Compile, link and run under a bundled policy; return the outcome."""
        evaluated = EvaluatedPolicies(RunnerSettings(env_id, self._corpus, policies={policy: policy}))
        compiled = PolicyObjects(evaluated, policy, self._scratch / "learned")
        try:
            objects = {name: compiled.file(name).read_bytes() for name in self._program.modules}
        except CompilerError as error:
            return {"outcome": "crashed", "problem": error.message}
        finally:
            compiled.clear()
            evaluated.close()
        problem = self.problem(objects)
        found = {"outcome": "wrong", "problem": problem} if problem else {"outcome": "correct"}
        return {**found, **self._counts(objects, self.plain(env))}


def find_programs(target: str, names: Sequence[str] = ()) -> dict[str, tuple[str, Program]]:
    """Return the named programs for a target, by default all, each with the name of its corpus."""
    found: dict[str, tuple[str, Program]] = {}
    for corpus in (f"{name}@Oz@{target}" for name in CORPORA):
        if not names or not found.keys() >= set(names):  # the second corpus is a download
            found |= {each.name: (corpus, each) for each in read_programs(open_corpus(corpus))}
    unknown = [name for name in names if name not in found]
    if unknown:
        sys.exit(f"expected programs of {', '.join(found)}, got {unknown[0]}")
    return {name: found[name] for name in names or found}


def check(target: str, name: str, module: str, file: Path, scratch: Path) -> int:
    """Return 1 if a program fails with one object and plain clang's others; reproducers call this."""
    corpus, program = find_programs(target, [name])[name]
    runs = Runs(program, corpus, scratch, Path())
    env = make("mlgo/Inline-v0", corpus)
    objects = {**runs.plain(env), module: file.read_bytes()}
    env.close()
    return int(bool(runs.problem(objects)))


def make(env_id: str, corpus: str) -> CompilerEnv:
    """Return an environment of a corpus."""
    env = gym.make(env_id, corpus=corpus).unwrapped
    assert isinstance(env, CompilerEnv)
    return env


def run_all(
    chosen: Mapping[str, tuple[str, Program]],
    environments: Sequence[str],
    policies: Sequence[int | str],
    output: Path,
    scratch: Path,
) -> list[dict[str, Any]]:
    """Do the runs that the output lacks: of random policies by seed, and of learned ones by name; return all."""
    output.mkdir(parents=True, exist_ok=True)
    path = output / "runs.jsonl"
    rows = [row for _, row in read_json_lines(path)]
    done = {(row["program"], row["environment"], row["seed"]) for row in rows}
    with JsonLines(path) as lines:
        for name, (corpus, program) in chosen.items():
            runs = Runs(program, corpus, scratch, output / "reproducers")
            problem = None
            for env_id in environments:
                seeds = [seed for seed in policies if (name, env_id, seed) not in done]
                if not seeds or problem:
                    continue
                env = make(env_id, corpus)
                problem = runs.problem(runs.plain(env))
                if problem:
                    sys.exit(f"{name}, compiled by plain clang: {problem}")
                for seed in seeds:
                    start = cpu_seconds()
                    found = runs.run_learned(env_id, env, seed) if isinstance(seed, str) else runs.run(env, seed)
                    row = {"program": name, "environment": env_id, "seed": seed, **found}
                    row["cpu_seconds"] = round(cpu_seconds() - start, 3)
                    rows.append(row)
                    lines.append(row)
                env.close()
    return rows


def summarize(target: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the counts by program, environment and kind of policy; those of the same keys are replaced."""
    found: dict[tuple[str, str, str, bool], dict[str, Any]] = {}
    known = json.loads(SUMMARY.read_text())
    for entry in known:
        key = (entry.get("target", DEFAULT_TARGET), entry["program"], entry["environment"], entry.get("learned", False))
        found[key] = entry
    new: dict[tuple[str, str, str, bool], dict[str, Any]] = {}
    for row in rows:
        learned = isinstance(row["seed"], str)
        key = (target, row["program"], row["environment"], learned)
        names = {"program": row["program"], "environment": row["environment"], "target": target, "learned": learned}
        counts = new.setdefault(key, {**names, **dict.fromkeys(("policies", "right", *_COUNTS), 0)})
        counts["policies"] += 1
        counts["right"] += row["outcome"] == "correct"
        for name in _COUNTS:
            counts[name] += row.get(name, 0)
    SUMMARY.write_text("[\n" + ",\n".join(map(json.dumps, {**found, **new}.values())) + "\n]\n")


def show(rows: Sequence[dict[str, Any]]) -> int:
    """Print a line per environment, and all failures; return the exit status."""
    titles = {
        "environment": "<24",
        "programs": ">8",
        "runs": ">6",
        "decisions": ">10",
        "objects": ">8",
        "changed": ">8",
    }
    table = Table({**titles, "outcomes": "<30"})
    for env_id in dict.fromkeys(row["environment"] for row in rows):
        of_env = [row for row in rows if row["environment"] == env_id]
        sums = [sum(row.get(key, 0) for row in of_env) for key in _COUNTS]
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
    parser.add_argument("--learned", nargs="+", default=[], metavar="POLICY", help="bundled policies (default: none)")
    parser.add_argument("--output", type=Path, default=Path("runs/correctness"), help="folder of the results")
    parser.add_argument("--summary", action="store_true", help=f"write the counts into {SUMMARY.relative_to(ROOT)}")
    names = ("PROGRAM", "MODULE", "OBJECT")
    parser.add_argument("--check", nargs=3, metavar=names, help="test one object; reproducers use this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mlgo-gym-correctness-") as scratch:
        if options.check:
            program, module, file = options.check
            sys.exit(check(options.target, program, module, Path(file), Path(scratch)))
        chosen = find_programs(options.target, options.programs or ())
        policies = [*range(options.policies), *options.learned]
        rows = run_all(chosen, options.environments, policies, options.output, Path(scratch))
        if options.summary:
            summarize(options.target, rows)
        sys.exit(show(rows))


if __name__ == "__main__":
    main()
