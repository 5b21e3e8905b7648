"""Replay of clang's own choices, compared with the object of a plain compile; one line of JSON per module.

    python -m benchmarks.own_choices --corpus builtin --corpus zstd --corpus zstd@Os --output runs/own.jsonl

Each module is compiled plainly, and with clang's own choice as the answer to every request; the objects are compared
byte for byte. A difference is tested for its known causes. The same command resumes an interrupted run.
`benchmarks/exactness.py` collects the output.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.checked_modules import CheckedModules, checking_parser
from benchmarks.unwind_calls import forbid_in_bitcode
from mlgo_clang.advisors import WITHOUT_SIZE_LIMIT
from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.env import CompilerEnv
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.tasks.task import Task
from tests.ways_to_answer import EVICT, INLINE, TIMEOUT, make

REMOVES_CAUSE = {INLINE: ("-mllvm", WITHOUT_SIZE_LIMIT), EVICT: ()}
"""Environments whose features give clang's own choice, and the flags that remove a known cause of differences."""


def replayed(compilation: Compilation, task: Task, flags: tuple[str, ...] = ()) -> tuple[bytes, bytes, int]:
    """Return the objects of a plain compile and of a replay of clang's own choices, and the number of decisions."""
    command = (*compilation.command, *flags)
    with Session(command) as session:
        plain = session.finish(TIMEOUT).object_bytes
    decisions: list[Decision] = []

    def choose(decision: Decision) -> bytes:
        decisions.append(decision)
        return task.default_advice(decision)

    with Session(command, task.advisors) as session:
        return plain, drive(session, choose, TIMEOUT).object_bytes, len(decisions)


def with_infinite_weights(compilation: Compilation, task: Task) -> int:
    """Return the number of decisions with an infinite weight, where all finite weights are shown as 0."""
    count = 0

    def choose(decision: Decision) -> bytes:
        nonlocal count
        header = session.header()
        assert header is not None
        weights = np.frombuffer(decision.payload, header.dtype)["use_def_density"]
        count += bool(np.isnan(weights).any())
        return task.default_advice(decision)

    with Session(compilation.command, task.advisors) as session:
        drive(session, choose, TIMEOUT)
    return count


def explain_by_unwinding(compilation: Compilation, env: CompilerEnv) -> str:
    """Return the explanation by calls that only unwinding reaches; empty if the objects differ without these too."""
    with tempfile.TemporaryDirectory(prefix="mlgo-gym-own-choices-") as folder:
        module = compilation.inputs[compilation.inputs.index("ir") + 1]
        changed = forbid_in_bitcode(Path(module), Path(folder), str(env.toolchain.version[0]))
        if changed is None:
            return ""
        path, count = changed
        inputs = tuple(str(path) if word == module else word for word in compilation.inputs)
        plain, replay, _ = replayed(replace(compilation, inputs=inputs), env.task, REMOVES_CAUSE[INLINE])
        return f"calls that only unwinding reaches, {count} in all" if plain == replay else ""


def check(environment: str, corpus: str, module: str, clang: str | None) -> dict[str, Any]:
    """Return whether the replay of a module gives its plain object, and the cause of a difference."""
    env = make(environment, corpus, clang=clang)
    compilation = env.compilation(env.corpus.module(module))
    if env.task.after_optimization:
        env = make(environment, corpus, clang=clang, compile_options={"preoptimize": False})
        compilation = env.compilation(env.corpus.module(module))
    plain, replay, decisions = replayed(compilation, env.task)
    entry: dict[str, Any] = {"decisions": decisions, "equal": plain == replay, "text": [], "explained": ""}
    if plain == replay:
        return entry
    entry["text"] = [object_sizes(data).text for data in (plain, replay)]
    if REMOVES_CAUSE[environment]:
        plain, replay, decisions = replayed(compilation, env.task, REMOVES_CAUSE[environment])
        entry["explained"] = "the size cut-off"
        if plain != replay:
            unexplained = f"no: {decisions} decisions without the cut-off"
            entry["explained"] = explain_by_unwinding(compilation, env) or unexplained
    else:
        infinite = with_infinite_weights(compilation, env.task)
        entry["explained"] = f"infinite weights at {infinite} of {decisions} decisions" if infinite else "no"
    return entry


def main() -> None:
    """Check the modules that the output lacks."""
    options = checking_parser(__doc__, "runs/own.jsonl").parse_args()
    with CheckedModules(options.output) as checked:
        for corpus in options.corpus:
            for environment in options.environment or REMOVES_CAUSE:
                env = make(environment, corpus, clang=options.clang)
                for module in list(env.corpus)[: options.limit]:
                    find = partial(check, environment, corpus, module.name, options.clang)
                    checked.check(environment, corpus, module.name, env.toolchain.version_text, find)


if __name__ == "__main__":
    main()
