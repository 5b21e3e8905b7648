"""Fakes of clang, for faults that a real one cannot show on demand."""

import sys
from pathlib import Path


def fake_clang(behaviour: str) -> tuple[str, ...]:
    """Return the command of a fake clang; `tests/fakes/clang.py` lists the behaviours."""
    return (sys.executable, "-I", "-S", str(Path(__file__).with_name("clang.py")), behaviour)
