"""How near the default eviction rule comes to clang's own choices: per function and per module, per compiler.

    python benchmarks/default_eviction.py --corpus builtin --clang bundled --clang clang-19

Each module is compiled plainly and with the rule answering every question, both with `-ffunction-sections`, so that a
function's bytes do not depend on its neighbours'; functions that raised a question are compared byte for byte.
"""

from __future__ import annotations

import argparse
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.envs import RegAllocEvictEnv
from mlgo_gym.session.session import Session
from mlgo_gym.tasks.task import Task

TIMEOUT = 300.0


@dataclass(slots=True)
class Agreement:
    """How many functions and modules came out equal."""

    clang: str
    corpus: str
    decisions: int = 0
    functions: int = 0
    equal_functions: int = 0
    modules: int = 0
    equal_modules: int = 0


def functions_of(data: bytes) -> dict[str, bytes]:
    """Return the bytes of each function's section by the function's name."""
    elf = ELFFile(io.BytesIO(data))
    return {
        section.name.removeprefix(".text."): section.data()
        for section in elf.iter_sections()
        if section.name.startswith(".text.")
    }


def play(compilation: Compilation, task: Task) -> tuple[bytes, dict[str, int]]:
    """Compile with the rule's choices; return the object and the number of questions per function."""
    questions: dict[str, int] = {}
    with Session(compilation.command, task.advisors) as session:
        while (decision := session.wait(TIMEOUT)) is not None:
            questions[decision.context] = questions.get(decision.context, 0) + 1
            session.advise(task.default_advice(decision))
        return session.finish(TIMEOUT).object_bytes, questions


def measure(corpus: str, clang: str) -> Agreement:
    """Compare every module of a corpus under one compiler."""
    env = RegAllocEvictEnv(corpus=corpus, clang=clang, extra_flags=["-ffunction-sections"])
    result = Agreement(f"{env.toolchain.version_text} ({clang})", corpus)
    for module in env.corpus:
        compilation = env.compilation(module)
        with Session(compilation.command) as session:
            plain = functions_of(session.finish(TIMEOUT).object_bytes)
        data, questions = play(compilation, env.task)
        played = functions_of(data)
        equal = [name for name in questions if plain[name] == played[name]]
        result.decisions += sum(questions.values())
        result.functions += len(questions)
        result.equal_functions += len(equal)
        result.modules += bool(questions)
        result.equal_modules += bool(questions) and plain == played
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", action="append")
    parser.add_argument("--clang", action="append")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = [
        measure(corpus, clang) for clang in arguments.clang or ["bundled"] for corpus in arguments.corpus or ["builtin"]
    ]
    print(f"{'clang':24} {'corpus':10} {'decisions':>9}  {'equal functions':>22}  {'equal modules':>18}")
    for row in rows:
        functions = f"{row.equal_functions} of {row.functions} ({row.equal_functions / max(row.functions, 1):.1%})"
        modules = f"{row.equal_modules} of {row.modules} ({row.equal_modules / max(row.modules, 1):.1%})"
        print(f"{row.clang:24} {row.corpus:10} {row.decisions:9}  {functions:>22}  {modules:>18}")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
