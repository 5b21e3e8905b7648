"""How a copy of something that is under way begins."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T", bound=Any)


def twin_of(original: T) -> T:
    """Return another object with the same attributes, whatever `copy.copy()` makes of it.

    A fork starts as such a copy and then replaces what must be its own; until then nothing of it may be closed.
    """
    twin = object.__new__(type(original))
    twin.__dict__.update(original.__dict__)
    return twin
