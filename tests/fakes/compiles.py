"""The compiles of environments, for tests that inspect them or inject a fault, and a clang that fails on one module."""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import gymnasium as gym

from mlgo_gym import ActionError, CompilerVectorEnv
from mlgo_gym.compiler.connection import CompileResult
from mlgo_gym.compiler.coroutine import drive, run_blocking
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.episode.episode import Episode
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.tasks.measurement import Measurement
from tests.conftest import clang_program
from tests.fakes.fake_clang import fake_clang


@dataclass(frozen=True, slots=True)
class RunningCompile:
    """One compile of an environment's episode.

    Attributes:
        session: The session with the compiler.
        decision: The pending decision; None at the end of the episode.
        advice: The bytes of each answer so far, clang's own answers included.
        fork_method: `"snapshot"` or `"replay"` if the compile is a copy of another, else None.
    """

    session: Session
    decision: Decision | None
    advice: tuple[bytes, ...]
    fork_method: str | None
    _episode: Episode = field(repr=False)

    @property
    def pid(self) -> int:
        """Process id of the compiler."""
        return self.session.pid

    def kill(self) -> None:
        """Kill the compiler, as the kernel does when memory runs out; the environment's next step fails."""
        self.session.kill()

    def answer(self, advice: bytes) -> dict[str, Any]:
        """Answer the pending decision with any bytes; return the info of the next decision or of the end."""
        self._episode.answer((0, advice, False))
        run_blocking(self._episode.proceed(), self._episode.setup.timeout)
        return self._episode.info() if self._episode.outcome is None else self._episode.outcome.info


def running_compile(
    env: gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any], number: int | None = None
) -> RunningCompile:
    """Return the compile of an environment's current episode as it is now.

    `number` is the index in a vector environment; wrappers do not matter. Raises `ActionError` without an episode.
    """
    inner: Any = env.unwrapped
    is_vector = isinstance(inner, CompilerVectorEnv)
    episode = inner._sub_envs[number or 0].episode if is_vector else inner._episode
    if episode is None:
        raise ActionError("expected a started episode, got none; call reset()")
    return RunningCompile(
        episode.compile.session, episode.decision, tuple(episode.compile.answers), episode.fork_method, episode
    )


class FinishedCompile(NamedTuple):
    """Object and optimisation record of a finished compile, and whether plain clang decided, for the baseline."""

    object_bytes: bytes
    optimization_record: bytes
    plain: bool


@contextmanager
def finished_compiles() -> Iterator[list[FinishedCompile]]:
    """Collect the compiles of episodes that finish in this process, in order, in a list that grows.

    Only whole compiles count: an episode with `scope="function"` and an allocation metric ends with its function. A
    baseline is compiled once and then read from the cache.
    """
    compiles: list[FinishedCompile] = []

    results: list[tuple[CompileResult, bool]] = []
    finish, measure = Session.finish, Measurement.of

    def finish_and_note(session: Session, timeout: float) -> CompileResult:
        results.append((finish(session, timeout), not session.advisors))
        return results[-1][0]

    def note_and_measure(compiled: CompileResult) -> Measurement:
        plain = next(is_plain for result, is_plain in results if result is compiled)
        compiles.append(FinishedCompile(compiled.object_bytes, compiled.optimization_record, plain))
        return measure(compiled)

    with patch.object(Session, "finish", finish_and_note), patch.object(Measurement, "of", note_and_measure):
        yield compiles


_FAULT = """read -r behaviour < {switch}
case "$behaviour:$*" in
:*) ;;
*{stem}.bc*channel-base=*|*channel-base=*{stem}.c*) exec {before} "$behaviour" {after} "$@" ;;
esac"""


class FaultyClang:
    """A program for the argument `clang`: a real clang, except for the inlining decisions of one module.

    While a fault is set, compiles of the module in which a policy decides run `fake_clang()` with a recording of
    clang's own decisions. All other compiles run the real clang.

    Args:
        folder: Folder for the program and the recording.
        bitcode: The module, `NAME.bc`; compiles of `NAME.c` fail too.

    Attributes:
        program: Path of the program.
        recording: Path of the recording. `NAME.o` beside it is the object of the fake clang.
    """

    def __init__(self, folder: Path, bitcode: Path) -> None:
        self.recording = folder / f"{bitcode.stem}.json"
        self._switch = folder / "behaviour"
        self.set_fault("")
        _record(bitcode, self.recording)
        *before, _, after = fake_clang("replay", self.recording)
        statement = _FAULT.format(
            switch=shlex.quote(str(self._switch)),
            stem=shlex.quote(bitcode.stem),
            before=shlex.join(before),
            after=shlex.quote(after),
        )
        self.program = str(clang_program(folder / "clang", statement))

    def set_fault(self, behaviour: str) -> None:
        """Give later compiles of the module a behaviour of `fake_clang()`; the empty one is no fault."""
        if behaviour:
            fake_clang(behaviour)
        self._switch.write_text(f"{behaviour}\n")

    def take_pids(self) -> list[int]:
        """Return and forget the process ids of the fake compilers so far, and of the children that they left."""
        path = self.recording.with_suffix(".pids")
        pids = [int(line) for line in path.read_text().split()] if path.exists() else []
        path.unlink(missing_ok=True)
        return pids


def _record(bitcode: Path, path: Path) -> None:
    """Write clang's messages under its own decisions, and the object."""
    with Session(plan(Module(bitcode.stem, bitcode), find_toolchain("bundled")).command, [INLINING]) as session:
        questions = []

        def choose(decision: Decision) -> bytes:
            questions.append(decision.payload.hex())
            return decision.payload[-8:]

        compiled = drive(session, choose, 60.0)
        header = session.header()
    line = f"{header.json}\n" if header is not None else ""
    path.write_text(json.dumps({"header": line, "questions": questions}))
    path.with_suffix(".o").write_bytes(compiled.object_bytes)
