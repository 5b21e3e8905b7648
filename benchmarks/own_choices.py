"""Whether clang's own choices, given as answers, make the object of a plain compile.

    python -m benchmarks.own_choices --corpus builtin --corpus zstd --corpus zstd@Os --output runs/own.jsonl

Every module is compiled plainly, and with clang's own choice as the answer to every question, and the objects are
compared byte for byte. Where they differ it tries what may explain it. A run that was cut off goes on where it was;
`benchmarks/exactness.py` makes a page of it.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.checked_modules import CheckedModules, checking_parser
from benchmarks.unwind_calls import forbid_in_bitcode
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.env import CompilerEnv
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.session.session import Session
from mlgo_gym.tasks.task import Task

INLINE, EVICT = "mlgo/Inline-v0", "mlgo/RegAllocEvict-v0"
OWN = {INLINE: ("-mllvm", "-ml-advisor-size-increase-threshold=1000"), EVICT: ()}
"""The environments whose features show clang's own choice, and the flags that may explain where it was not followed."""

TIMEOUT = 600.0


def make(environment: str, corpus: str, **options: Any) -> CompilerEnv:
    """Return an environment that raises when a compile fails."""
    made = gym.make(environment, corpus=corpus, on_error="raise", timeout=TIMEOUT, disable_env_checker=True, **options)
    env = made.unwrapped
    assert isinstance(env, CompilerEnv)
    return env


def replayed(compilation: Compilation, task: Task, extra: tuple[str, ...] = ()) -> tuple[bytes, bytes, int]:
    """Compile plainly, and with clang's own choices as answers; return both objects and the number of questions."""
    command = (*compilation.command, *extra)
    with Session(command) as session:
        plain = session.finish(TIMEOUT).object_bytes
    questions = 0
    with Session(command, task.advisors) as session:
        while (decision := session.wait(TIMEOUT)) is not None:
            session.advise(task.default_advice(decision))
            questions += 1
        return plain, session.finish(TIMEOUT).object_bytes, questions


def blind(compilation: Compilation, task: Task) -> int:
    """Return at how many questions a weight is infinite, so that all finite ones are shown as 0."""
    count = 0
    with Session(compilation.command, task.advisors) as session:
        while (decision := session.wait(TIMEOUT)) is not None:
            header = session.header()
            assert header is not None
            weights = np.frombuffer(decision.payload, header.dtype)["use_def_density"]
            count += bool(np.isnan(weights).any())
            session.advise(task.default_advice(decision))
    return count


def unwinding(compilation: Compilation, env: CompilerEnv) -> str:
    """Return that calls which are only reached by unwinding explain it, if both are the same without them."""
    with tempfile.TemporaryDirectory(prefix="mlgo-gym-own-choices-") as folder:
        module = compilation.inputs[compilation.inputs.index("ir") + 1]
        changed = forbid_in_bitcode(Path(module), Path(folder), str(env.toolchain.version[0]))
        if changed is None:
            return ""
        path, count = changed
        inputs = tuple(str(path) if word == module else word for word in compilation.inputs)
        plain, again, _ = replayed(replace(compilation, inputs=inputs), env.task, OWN[INLINE])
        return f"calls that only unwinding reaches, {count} in all" if plain == again else ""


def check_own(environment: str, corpus: str, module: str, clang: str | None) -> dict[str, Any]:
    """Return whether clang's own choices make a module's plain object, and if not, what explains it."""
    env = make(environment, corpus, clang=clang)
    compilation = env.compilation(env.corpus.module(module))
    if env.task.after_optimization:
        env = make(environment, corpus, clang=clang, preoptimize=False)
        compilation = env.compilation(env.corpus.module(module))
    plain, again, questions = replayed(compilation, env.task)
    entry: dict[str, Any] = {"questions": questions, "equal": plain == again, "text": [], "explained": ""}
    if plain != again:
        sizes = (object_sizes(data).text for data in (plain, again))
        entry["text"] = list(sizes)
        if OWN[environment]:
            plain, again, asked = replayed(compilation, env.task, OWN[environment])
            entry["explained"] = "the size cut-off"
            if plain != again:
                entry["explained"] = unwinding(compilation, env) or f"no: {asked} questions without the cut-off"
        else:
            unseen = blind(compilation, env.task)
            entry["explained"] = (
                f"the weights are not to be seen at {unseen} of {questions} questions" if unseen else "no"
            )
    return entry


def main() -> None:
    """Check what was not checked yet, one line of JSON for each module and environment."""
    arguments = checking_parser(__doc__, "runs/own.jsonl").parse_args()
    with CheckedModules(arguments.output) as checked:
        for corpus in arguments.corpus:
            for environment in arguments.environment or OWN:
                opened = make(environment, corpus, clang=arguments.clang)
                clang = opened.toolchain.version_text
                for module in list(opened.corpus)[: arguments.limit]:
                    find = partial(check_own, environment, corpus, module.name, arguments.clang)
                    checked.check(environment, corpus, module.name, clang, find)


if __name__ == "__main__":
    main()
