"""Programs that take the place of a clang, for faults that a real one cannot be made to show."""

import sys
from pathlib import Path


def fake_clang(behaviour: str) -> tuple[str, ...]:
    """Return the command of a fake clang; `tests/fakes/clang.py` says which behaviours there are."""
    return (sys.executable, "-I", "-S", str(Path(__file__).with_name("clang.py")), behaviour)
