"""Files of policies: models such as `mlp:FILE`, users' code, and bundled networks; their digests, and their transport.

Each bundled network is three files of `mlgo_gym/policies/networks/`: the weights (`NAME.safetensors`), the model card
for people (`NAME.md`) and the same facts for programs (`NAME.json`). A network that is added to the folder can be used
at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from mlgo_gym.cache import sha256_of
from mlgo_gym.errors import PolicyError
from mlgo_gym.scheduling import FileStore, StoredFiles

KINDS = ("mlp", "rule", "tflite", "onnx")
"""Prefixes of models in files. Nothing in such a file can run."""

MODEL_POLICIES = tuple(f"{kind}:FILE" for kind in KINDS)
"""The forms of such policies."""

NETWORKS = Path(__file__).with_name("networks")
"""Folder of the bundled networks."""


def bundled_policies() -> tuple[str, ...]:
    """Return the names of the bundled policies."""
    return tuple(sorted(path.stem for path in NETWORKS.glob("*.safetensors")))


def network_file(spec: str) -> Path:
    """Return the file of `mlp:FILE` or of a bundled policy, or raise a PolicyError."""
    if is_model(spec):
        return model_file(spec)
    if spec not in bundled_policies():
        raise PolicyError(f"expected a bundled policy, got {spec!r}; use one of {', '.join(bundled_policies())}")
    return NETWORKS / f"{spec}.safetensors"


def is_model(spec: str) -> bool:
    """Return whether a policy is a model in a file."""
    kind, colon, _ = spec.partition(":")
    return bool(colon) and kind in KINDS


def model_file(spec: str) -> Path:
    """Return the file or folder of a model, or raise a PolicyError if there is none."""
    path = Path(spec.partition(":")[2]).expanduser()
    if not path.exists():
        raise PolicyError(f"expected a model in a file, got {spec}, and there is no {path}; check the path")
    return path


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file as of `sha256sum`, or of the names and contents of a folder, in hexadecimal."""
    if path.is_file():
        return sha256_of(path)
    digest = hashlib.sha256()
    for file in _files_in(path):
        digest.update(f"{file.relative_to(path)} {file.stat().st_size}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _files_in(folder: Path) -> list[Path]:
    return sorted(part for part in folder.rglob("*") if part.is_file())


def pack_policies(specs: Sequence[str]) -> dict[str, StoredFiles]:
    """Return the files of policies by specification, for machines without these files.

    Models and `path/to/file.py:Name` have files. A policy of an installed module must be installed on every machine.

    Raises:
        PolicyError: a file cannot be read.
    """
    packed: dict[str, StoredFiles] = {}
    for spec in specs:
        path = _file_of(spec)
        if path is not None:
            files = _files_in(path) if path.is_dir() else [path]
            try:
                packed[spec] = {str(Path(path.name, file.relative_to(path))): file.read_bytes() for file in files}
            except OSError as error:
                raise PolicyError(f"the files of {spec} cannot be read: {error}; check the path") from error
    return packed


def unpack_policy(spec: str, store: FileStore | None) -> str:
    """Return the specification of a policy on a machine that received its files; the same without a store."""
    path = None if store is None else _file_of(spec)
    if store is None or path is None:
        return spec
    received = store.folder(spec) / path.name
    return f"{spec.partition(':')[0]}:{received}" if is_model(spec) else f"{received}:{spec.rpartition(':')[2]}"


def _file_of(spec: str) -> Path | None:
    if is_model(spec):
        return Path(spec.partition(":")[2]).expanduser()
    place, colon, _ = spec.rpartition(":")
    return Path(place) if colon and place.endswith(".py") else None
