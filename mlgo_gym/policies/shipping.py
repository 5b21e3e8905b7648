"""The files of policies, for machines that do not have them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.model_files import is_model
from mlgo_gym.scheduling.shelf import Good, Shelf

RECIPES = "recipes:"
"""What a baseline of training begins with that is a folder of recipes."""


def pack_policies(specs: Sequence[str]) -> dict[str, Good]:
    """Return the files of those policies that are in files, by specification.

    Models, folders of recipes, and `path/to/file.py:Name`; what is named by a module has to be installed everywhere.

    Raises:
        PolicyError: a file cannot be read.
    """
    packed: dict[str, Good] = {}
    for spec in specs:
        path = _path(spec)
        if path is None:
            continue
        files = sorted(part for part in path.rglob("*") if part.is_file()) if path.is_dir() else [path]
        try:
            packed[spec] = {str(Path(path.name, file.relative_to(path))): file.read_bytes() for file in files}
        except OSError as error:
            raise PolicyError(f"the files of {spec} were to be sent, and cannot be read: {error}") from error
    return packed


def unpack_policy(spec: str, shelf: Shelf) -> str:
    """Return the specification of a policy on the machine that its files have come to."""
    path = _path(spec)
    if path is None:
        return spec
    before, _, after = spec.partition(":") if _is_after_the_kind(spec) else ("", "", spec.rpartition(":")[2])
    here = shelf.folder(spec) / path.name
    return f"{before}:{here}" if before else f"{here}:{after}"


def _is_after_the_kind(spec: str) -> bool:
    return is_model(spec) or spec.startswith(RECIPES)


def _path(spec: str) -> Path | None:
    """Return the file or folder that a specification names; None where it names none."""
    if _is_after_the_kind(spec):
        return Path(spec.partition(":")[2]).expanduser()
    place, colon, _ = spec.rpartition(":")
    return Path(place) if colon and place.endswith(".py") else None
