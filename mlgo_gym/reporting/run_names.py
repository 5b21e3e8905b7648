"""What to call the runs that a command was given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlgo_gym.errors import MlgoError


def run_names(paths: Sequence[Path]) -> dict[str, Path]:
    """Return each path by the end of it that tells it from the others: mostly its last part.

    Raises:
        MlgoError: a path is there twice.
    """
    resolved = [path.resolve() for path in paths]
    twice = [str(path) for path, full in zip(paths, resolved, strict=True) if resolved.count(full) > 1]
    if twice:
        raise MlgoError(f"{twice[0]} is named twice; name each run once")
    length = 1
    while len({path.parts[-length:] for path in resolved}) < len(resolved):
        length += 1
    return {"/".join(full.parts[-length:]).lstrip("/"): path for path, full in zip(paths, resolved, strict=True)}
