"""Records a real session for the faulty compiler to replay."""

from __future__ import annotations

import json
from pathlib import Path

from mlgo_gym.corpus.commands.compilation import Compilation
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.session import Session

SECONDS = 60.0


def record(compilation: Compilation, path: Path) -> int:
    """Write clang's messages under default actions, and the object; return the number of decisions."""
    with Session(compilation.command, [INLINING]) as session:
        questions = []
        while (decision := session.wait(SECONDS)) is not None:
            questions.append(decision.payload.hex())
            session.advise(decision.payload[-8:])
        header = session.header()
        assert header is not None
        compiled = session.finish(SECONDS)
    line = json.dumps(header.to_json(), separators=(",", ":")) + "\n"
    path.write_text(json.dumps({"header": line, "questions": questions}))
    path.with_suffix(".o").write_bytes(compiled.object_bytes)
    return len(questions)
