"""A clang that fails on one module, on command."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.integrations.testing.fake_clang import fake_clang
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain

_SECONDS = 60.0

_PROGRAM = """#!/bin/sh
read -r behaviour < {switch}
case "$behaviour:$*" in
:*) ;;
*{stem}.bc*channel-base=*|*channel-base=*{stem}.c*) exec {before} "$behaviour" {after} "$@" ;;
esac
exec {clang} "$@"
"""


class FaultyClang:
    """A program for the argument `clang`: a real clang, except for the inlining decisions of one module.

    While a fault is set, compiles of the module in which a policy decides run `fake_clang()` with a recording of
    clang's own decisions. All other compiles run the real clang.

        clang = FaultyClang(tmp_path, corpus / "hello.bc")
        env = gym.make("mlgo/Inline-v0", corpus=corpus, clang=clang.program)
        clang.set_fault("crash@answer")  # from the next episode on
        _, info = env.reset(options={"module": "hello"})
        *_, truncated, info = env.step(0)
        assert truncated and info["error"]["kind"] == "signal"
        clang.set_fault("")              # no fault

    Args:
        folder: Folder for the program and the recording.
        bitcode: The module, `NAME.bc`; compiles of `NAME.c` fail too.
        clang: The real clang, as the argument of an environment.

    Attributes:
        program: Path of the program.
        recording: Path of the recording. `NAME.o` beside it is the object of the fake clang.
    """

    def __init__(self, folder: Path, bitcode: Path, clang: str = "bundled") -> None:
        toolchain = find_toolchain(clang)
        self.recording = folder / f"{bitcode.stem}.json"
        self._switch = folder / "behaviour"
        self.set_fault("")
        _record(bitcode, toolchain, self.recording)
        *before, _, after = fake_clang("replay", self.recording)
        program = folder / "clang"
        program.write_text(
            _PROGRAM.format(
                switch=shlex.quote(str(self._switch)),
                stem=shlex.quote(bitcode.stem),
                before=shlex.join(before),
                after=shlex.quote(after),
                clang=shlex.join(toolchain.command),
            )
        )
        program.chmod(0o755)
        self.program = str(program)

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


def _record(bitcode: Path, toolchain: Toolchain, path: Path) -> None:
    """Write clang's messages under its own decisions, and the object."""
    with Session(plan(Module(bitcode.stem, bitcode), toolchain).command, [INLINING]) as session:
        questions = []

        def choose(decision: Decision) -> bytes:
            questions.append(decision.payload.hex())
            return decision.payload[-8:]

        compiled = drive(session, choose, _SECONDS)
        header = session.header()
    line = json.dumps(header.to_json(), separators=(",", ":")) + "\n" if header is not None else ""
    path.write_text(json.dumps({"header": line, "questions": questions}))
    path.with_suffix(".o").write_bytes(compiled.object_bytes)
