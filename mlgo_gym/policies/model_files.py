"""Policies that are models in files, `mlp:FILE` and others: load, identify, and send them to other machines.

Nothing in such a file can run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.protocol import Policy
from mlgo_gym.scheduling import FileStore, StoredFiles
from mlgo_gym.storage.untrusted_file import sha256_of, update_from_file

_KINDS = {"mlp": "load_mlp", "rule": "load_rule", "tflite": "TflitePolicy", "onnx": "OnnxPolicy", "sb3": "load_sb3"}
"""By prefix, which is also a module of this folder: what makes a policy of an environment and a path."""

MODEL_POLICIES = tuple(f"{kind}:FILE" for kind in _KINDS)
"""The forms of such policies."""


def is_model(spec: str) -> bool:
    """Return whether a policy is a model in a file."""
    kind, colon, _ = spec.partition(":")
    return bool(colon) and kind in _KINDS


def load_model(spec: str, env: CompilerEnv) -> Policy:
    """Return the policy of a model in a file.

    Raises:
        MissingExtraError: the library that reads such files is not installed.
        PolicyError: there is no such file, it is no such model, or it does not fit the environment.
    """
    kind = spec.partition(":")[0]
    # Imported here, so that `import mlgo_gym` stays fast.
    make: Callable[[CompilerEnv, Path], Policy] = getattr(import_module(f"mlgo_gym.policies.{kind}"), _KINDS[kind])
    return make(env, model_file(spec))


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file as of `sha256sum`, or of the names and contents of a folder, in hexadecimal."""
    if path.is_file():
        with path.open("rb") as content:
            return sha256_of(content)
    digest = hashlib.sha256()
    for file in sorted(part for part in path.rglob("*") if part.is_file()):
        with file.open("rb") as content:
            digest.update(f"{file.relative_to(path)} {file.stat().st_size}\n".encode())
            update_from_file(digest, content)
    return digest.hexdigest()


def pack_policies(specs: Sequence[str]) -> dict[str, StoredFiles]:
    """Return the files of policies by specification, for machines without these files.

    Models and `path/to/file.py:Name` have files. A policy of an installed module must be installed on every machine.

    Raises:
        PolicyError: a file cannot be read.
    """
    packed: dict[str, StoredFiles] = {}
    for spec in specs:
        path = _file_of(spec)
        if path is None:
            continue
        files = sorted(part for part in path.rglob("*") if part.is_file()) if path.is_dir() else [path]
        try:
            packed[spec] = {str(Path(path.name, file.relative_to(path))): file.read_bytes() for file in files}
        except OSError as error:
            raise PolicyError(f"the files of {spec} cannot be read: {error}; check the path") from error
    return packed


def unpack_policy(spec: str, store: FileStore) -> str:
    """Return the specification of a policy on a machine that received its files."""
    path = _file_of(spec)
    if path is None:
        return spec
    received = store.folder(spec) / path.name
    return f"{spec.partition(':')[0]}:{received}" if is_model(spec) else f"{received}:{spec.rpartition(':')[2]}"


def _file_of(spec: str) -> Path | None:
    if is_model(spec):
        return Path(spec.partition(":")[2]).expanduser()
    place, colon, _ = spec.rpartition(":")
    return Path(place) if colon and place.endswith(".py") else None


def model_file(spec: str) -> Path:
    """Return the file or folder of a model, or raise a PolicyError if there is none."""
    path = Path(spec.partition(":")[2]).expanduser()
    if not path.exists():
        raise PolicyError(f"expected a model in a file, got {spec}, and there is no {path}; check the path")
    return path
