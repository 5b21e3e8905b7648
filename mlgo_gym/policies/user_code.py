"""Python objects that a user names: `package.module:Name` or `path/to/file.py:Name`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from mlgo_gym.errors import PolicyError


def find_object(spec: str) -> Any:
    """Return the object that a specification names; modules are also searched in the working folder.

    Raises:
        PolicyError: there is no such file, module or name. Exceptions of the code itself are passed on.
    """
    module = _module_of(spec)
    value: Any = module
    for part in spec.rpartition(":")[2].split("."):
        if not hasattr(value, part):
            public = ", ".join(name for name in vars(module) if not name.startswith("_"))
            raise PolicyError(f"expected a name of {public or 'an empty module'}, got {part!r} in {spec}")
        value = getattr(value, part)
    return value


def source_digest(spec: str) -> str | None:
    """Return the SHA-256 of the file of a specification, in hexadecimal; None if it has no file."""
    source = getattr(_module_of(spec), "__file__", None)
    return hashlib.sha256(Path(source).read_bytes()).hexdigest() if source else None


def _module_of(spec: str) -> ModuleType:
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name:
        raise PolicyError(f"expected package.module:Name or path/to/file.py:Name, got {spec!r}")
    return _load_file(Path(place)) if place.endswith(".py") else _import(place, spec)


def _import(name: str, spec: str) -> ModuleType:
    folder = os.getcwd()  # noqa: PTH109 - sys.path holds strings
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise PolicyError(
            f"there is no module {error.name!r} for the policy {spec!r}; install it, work in the folder that contains "
            "it, or write path/to/file.py:Name"
        ) from error


def _load_file(path: Path) -> ModuleType:
    try:
        code = path.read_bytes()
    except OSError as error:
        raise PolicyError(f"expected a file with a policy, got {path}: {error.strerror}; check the path") from error
    # An edited file is another module, also in a session that loaded it before.
    name = f"mlgo_gym_policy_{hashlib.sha256(os.fsencode(path.resolve()) + code).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    module = ModuleType(name)
    module.__file__ = str(path.resolve())
    # Dataclasses and pickle look up their module by name.
    sys.modules[name] = module
    try:
        exec(compile(code, module.__file__, "exec"), vars(module))  # noqa: S102 - the user's own policy
    except BaseException:
        del sys.modules[name]
        raise
    return module
