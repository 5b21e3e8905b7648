"""What the results in a folder depend on, held against what those that are to be added depend on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlgo_gym.errors import MlgoError


def check_same_kind(folder: Path, what: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Check that a folder may be added to.

    Args:
        folder: the folder.
        what: what is in it, in the plural.
        found: what these depend on.
        wanted: what those depend on that are to be added.

    Raises:
        MlgoError: they are not equal; it names what differs.
    """
    if found != wanted:
        differing = [name for name in {**found, **wanted} if found.get(name) != wanted.get(name)]
        there, here = ({name: each.get(name) for name in differing} for each in (found, wanted))
        raise MlgoError(f"{folder} has {what} of another kind: {there} there, {here} now; choose another output")
