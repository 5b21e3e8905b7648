"""The policies that are models in files: `mlp:FILE` and its like. Nothing in such a file can run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.protocol import Policy
from mlgo_gym.storage.hashing import sha256_of, take_in


def _mlp(path: Path, env: CompilerEnv) -> Policy:
    from mlgo_gym.policies.calls import network_policy
    from mlgo_gym.policies.network import Network

    return network_policy(env, Network.load(path))


def _tflite(path: Path, env: CompilerEnv) -> Policy:
    from mlgo_gym.policies.tflite import TflitePolicy

    return TflitePolicy(env, path)


def _onnx(path: Path, env: CompilerEnv) -> Policy:
    from mlgo_gym.policies.onnx import OnnxPolicy

    return OnnxPolicy(env, path)


def _sb3(path: Path, env: CompilerEnv) -> Policy:
    from mlgo_gym.policies.sb3 import Sb3Policy

    return Sb3Policy(env, path)


_KINDS: dict[str, Callable[[Path, CompilerEnv], Policy]] = {
    "mlp": _mlp,
    "tflite": _tflite,
    "onnx": _onnx,
    "sb3": _sb3,
}

MODEL_POLICIES = tuple(f"{kind}:FILE" for kind in _KINDS)
"""How the policies are written."""


def is_model(spec: str) -> bool:
    """Return whether a specification is one of a model in a file."""
    kind, colon, _ = spec.partition(":")
    return bool(colon) and kind in _KINDS


def load_model(spec: str, env: CompilerEnv) -> Policy:
    """Return the policy that is a model in a file.

    Args:
        spec: such as `mlp:FILE`.
        env: the environment that the policy is for.

    Raises:
        MissingExtraError: what reads such files is not installed.
        PolicyError: there is no such file, it is no such model, or it does not fit the environment.
    """
    return _KINDS[spec.partition(":")[0]](_path(spec), env)


def model_digest(spec: str) -> str:
    """Return the SHA-256 of a model's file, or of all files of its folder, in hexadecimal.

    Raises:
        PolicyError: there is no such file.
    """
    return file_digest(_path(spec))


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, as `sha256sum` has it; of a folder, that of its files and names, in hexadecimal."""
    if path.is_file():
        with path.open("rb") as content:
            return sha256_of(content)
    digest = hashlib.sha256()
    for file in sorted(part for part in path.rglob("*") if part.is_file()):
        with file.open("rb") as content:
            digest.update(f"{file.relative_to(path)} {file.stat().st_size}\n".encode())
            take_in(digest, content)
    return digest.hexdigest()


def _path(spec: str) -> Path:
    path = Path(spec.partition(":")[2]).expanduser()
    if not path.exists():
        raise PolicyError(f"{spec} was to be a model in a file, and there is no {path}; check the path")
    return path
