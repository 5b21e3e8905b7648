"""The widths of a network's hidden layers, as they are written on a command line."""

from __future__ import annotations

from mlgo_gym.errors import MlgoError


def widths(text: str) -> tuple[int, ...]:
    """Return the widths that a text such as `64,32` names.

    Raises:
        MlgoError: it names none, or one below 1.
    """
    try:
        found = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        found = (0,)
    if min(found, default=0) < 1:
        raise MlgoError(f"--hidden takes widths of layers with commas between, as in 64,32; found {text!r}")
    return found
