"""The rule by which projects are divided into parts for training, validation and testing.

A family is a set of projects that contain functions of each other: a library, its bindings, and projects with a copy of
it. `families.json` has the families of the catalogue with their parts. The part of another project follows from a hash
of its name without its version. `mlgo-gym corpus overlap` shows which projects share functions.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal, get_args

Part = Literal["train", "test", "fit", "valid"]
"""A part of a split: `train` and `test` cover all modules; `fit` and `valid` cover `train`."""

PARTS: tuple[Part, ...] = get_args(Part)

HELD_OUT: Mapping[Part, tuple[Part, ...]] = {"train": ("test",), "valid": ("test",), "fit": ("test", "valid")}
"""The parts whose modules a part must not contain."""

BUILTIN = "builtin"
"""The project of the packaged corpus. Its programs share no functions, so each is divided as a project is."""

_VERSION = re.compile(r"(?<=\w)[-_.@]?v?\d+(\.\d+)+([-+.]\w+)*$")
"""The version at the end of a project's name, such as `-5.4.6`."""


@cache
def family_parts() -> Mapping[str, Part]:
    """Return the part of each project in `families.json`."""
    families: dict[Part, dict[str, list[str]]] = json.loads((Path(__file__).parent / "families.json").read_bytes())
    return {project: part for part in families for projects in families[part].values() for project in projects}


def is_project_part(project: str, name: str, part: Part) -> bool:
    """Return whether a module is in a part, given its project and its name there."""
    if project == BUILTIN:
        return is_part(name, part)
    known = family_parts().get(project)
    if known is None:
        return is_part(_VERSION.sub("", project.lower()), part)
    return part == known or (part == "train" and known != "test")


def is_part(key: str, part: Part) -> bool:
    """Return whether the hash of a key is in a part: a fifth is in `test`, and a fifth of the rest in `valid`."""
    if part == "test" or _is_in_fifth(key):
        return part == "test" and _is_in_fifth(key)
    return part == "train" or _is_in_fifth(f"valid:{key}") is (part == "valid")


def _is_in_fifth(key: str) -> bool:
    number = int.from_bytes(hashlib.sha256(key.encode(errors="surrogateescape")).digest()[:8], "big")
    return number < 0.2 * 2.0**64
