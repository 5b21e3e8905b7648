"""Whether objects are right whatever is decided: programs with known output, compiled under random policies, and run.

    python -m benchmarks.correctness --policies 50 --output runs/correctness

The programs are those of `builtin`, each of which checks its own answers, and drivers around libraries of datasets
whose output is published or can be read by somebody else: xxHash's and MurmurHash's test vectors, what zopfli packs as
Python's gzip unpacks it, and what LZ4 packs and unpacks again. Each is compiled under so many random policies for each
environment, linked with the libc of the bundled compiler (or `--linker cc`), and run. A policy takes clang's own choice
but with a probability of 2, 10, 50 or 100 %, and then a random legal action.

Results are lines of `runs.jsonl`; the same command goes on where it was interrupted. Where an object gives another
output, the module that does it is found, and kept as a reproducer with its decisions (`mlgo-gym reproduce FOLDER
--trust`), and so is each crash. The exit status is 1 where there was one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import mlgo_gym
from benchmarks.correctness_programs import PROGRAMS, Linker, Program
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.reproducer import WRONG, keep_crash, keep_reproducer
from mlgo_gym.errors import CompilerError
from mlgo_gym.session.session import Session
from mlgo_gym.storage.json_lines import JsonLines, read_json_lines
from mlgo_gym.tasks.action import read_action
from mlgo_gym.tasks.task import Task

ROOT = Path(__file__).parents[1]

SHARES = (0.02, 0.1, 0.5, 1.0)
"""How often a policy does not take clang's own choice."""

TIMEOUT = 120.0


def compile_randomly(
    compilation: Compilation, task: Task, chance: np.random.Generator, share: float, answers: list[bytes]
) -> bytes:
    """Return the object of a compile under a random policy; the answers are added to a list as they are given.

    Raises:
        CompilerError: the compile failed.
    """
    with Session(compilation.command, task.advisors, confined=compilation.confined) as session:
        while (decision := session.wait(TIMEOUT)) is not None:
            advice = task.default_advice(decision)
            if chance.random() < share:
                mask = task.action_mask(decision)
                action = task.action_space.sample() if mask is None else int(chance.choice(np.flatnonzero(mask)))
                advice = task.encode(decision, read_action(action, task.action_space)) or advice
            answers.append(advice)
            session.advise(advice)
        return session.finish(TIMEOUT).object_bytes


class Runs:
    """The runs of one program.

    Args:
        program: the program.
        linker: links its objects.
        reproducers: where what goes wrong is kept.
    """

    def __init__(self, program: Program, linker: Linker, reproducers: Path) -> None:
        self._program = program
        self._linker = linker
        self._reproducers = reproducers
        self._plain: dict[str, bytes] = {}
        self._known: dict[bytes, str] = {}

    def wrong(self, objects: Sequence[bytes]) -> str:
        """Return what is wrong with the program of some objects, or nothing; the same objects are run once."""
        key = hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in objects)).digest()
        if key not in self._known:
            self._known[key] = self._program.wrong(self._linker, objects)
        return self._known[key]

    def _compilations(self, env: CompilerEnv) -> dict[str, Compilation]:
        names = self._program.modules
        return {name: env.compilation(env.corpus.module(name)) for name in names}

    def plain(self, env: CompilerEnv) -> dict[str, bytes]:
        """Return the objects of plain clang, by module; made once."""
        for name, compilation in self._compilations(env).items():
            if name not in self._plain:
                with Session(compilation.command, confined=compilation.confined) as session:
                    self._plain[name] = session.finish(TIMEOUT).object_bytes
        return self._plain

    def run(self, env: CompilerEnv, seed: int) -> dict[str, Any]:
        """Compile, link and run under one random policy; return what came of it."""
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
                return {"outcome": "crashed", "module": name, "why": error.message, "reproducer": str(folder)}
        plain = self.plain(env)
        told = {
            "decisions": sum(map(len, answers.values())),
            "objects": len(objects),
            "changed": sum(objects[name] != plain[name] for name in objects),
        }
        wrong = self.wrong(list(objects.values()))
        if not wrong:
            return {"outcome": "right", **told}
        for name, compilation in compilations.items():
            if self.wrong([*({**plain, name: objects[name]}).values()]):
                words = [f"PYTHONPATH={ROOT}", sys.executable, "-m", "benchmarks.correctness", "--check"]
                test = ("env", *words, self._program.name, name, "{object}")
                folder = keep_reproducer(
                    self._reproducers,
                    compilation,
                    env.task.advisors,
                    answers[name],
                    kind=WRONG,
                    message=wrong,
                    test=test,
                )
                return {"outcome": "wrong", "module": name, "why": wrong, "reproducer": str(folder), **told}
        return {"outcome": "wrong together", "why": wrong, **told}


def check(name: str, module: str, file: Path, linker: Linker) -> int:
    """Return 1 where a program goes wrong with one object in the place of plain clang's, for a reproducer."""
    program = PROGRAMS[name]
    env = make("mlgo/Inline-v0", program)
    objects = {**Runs(program, linker, Path()).plain(env), module: file.read_bytes()}
    env.close()
    return int(bool(program.wrong(linker, list(objects.values()))))


def make(env_id: str, program: Program) -> CompilerEnv:
    """Return an environment of a program's corpus."""
    env = gym.make(env_id, corpus=program.corpus).unwrapped
    assert isinstance(env, CompilerEnv)
    return env


def work(programs: Sequence[str], environments: Sequence[str], policies: int, output: Path, linker: Linker) -> int:
    """Do the runs that are not there yet, print a table of all, and return the exit status."""
    output.mkdir(parents=True, exist_ok=True)
    path = output / "runs.jsonl"
    rows = [row for _, row in read_json_lines(path)]
    done = {(row["program"], row["environment"], row["seed"]) for row in rows}
    with JsonLines(path) as lines:
        for name in programs:
            runs = Runs(PROGRAMS[name], linker, output / "reproducers")
            problem = None
            for env_id in environments:
                seeds = [seed for seed in range(policies) if (name, env_id, seed) not in done]
                if not seeds or problem:
                    continue
                env = make(env_id, PROGRAMS[name])
                problem = runs.wrong(list(runs.plain(env).values()))
                if problem:
                    sys.exit(f"{name} gives another output by clang alone: {problem}")
                for seed in seeds:
                    start = processor_seconds()
                    row = {"program": name, "environment": env_id, "seed": seed, **runs.run(env, seed)}
                    row["processor_seconds"] = round(processor_seconds() - start, 3)
                    rows.append(row)
                    lines.append(row)
                env.close()
    return tell(rows)


def processor_seconds() -> float:
    """Return the processor time of this process and of all that it has waited for."""
    return time.process_time() + sum(os.times()[2:4])


def tell(rows: Sequence[dict[str, Any]]) -> int:
    """Print a line for each environment and return the exit status."""
    print(f"{'environment':24} {'programs':>8} {'runs':>6} {'decisions':>10} {'objects':>8} {'changed':>8}  outcomes")
    for env_id in dict.fromkeys(row["environment"] for row in rows):
        own = [row for row in rows if row["environment"] == env_id]
        sums = [sum(row.get(key, 0) for row in own) for key in ("decisions", "objects", "changed")]
        outcomes = ", ".join(f"{count} {what}" for what, count in Counter(row["outcome"] for row in own).items())
        programs = len({row["program"] for row in own})
        print(f"{env_id:24} {programs:8} {len(own):6} {sums[0]:10} {sums[1]:8} {sums[2]:8}  {outcomes}")
    bad = [row for row in rows if row["outcome"] != "right"]
    for row in bad:
        print(json.dumps(row))
    return int(bool(bad))


def main() -> None:
    """Compile, link, run, and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=PROGRAMS, metavar="PROGRAM")
    parser.add_argument("--environments", nargs="+", default=list(mlgo_gym.ENVIRONMENTS))
    parser.add_argument("--policies", type=int, default=50)
    parser.add_argument("--linker", choices=("bundled", "cc"), default="bundled")
    parser.add_argument("--output", type=Path, default=Path("runs/correctness"))
    parser.add_argument(
        "--check", nargs=3, metavar=("PROGRAM", "MODULE", "OBJECT"), help="one object, for a reproducer"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mlgo-gym-correctness-") as scratch:
        linker = Linker(Path(scratch), arguments.linker)
        if arguments.check:
            program, module, file = arguments.check
            sys.exit(check(program, module, Path(file), linker))
        try:
            status = work(arguments.programs, arguments.environments, arguments.policies, arguments.output, linker)
        except subprocess.CalledProcessError as error:
            sys.exit(f"{' '.join(map(str, error.cmd))}: {error.stderr}")
    sys.exit(status)


if __name__ == "__main__":
    main()
