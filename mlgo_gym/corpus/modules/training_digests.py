"""Digests of the modules that a policy was trained on: one per line of a sidecar file next to the policy's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from mlgo_gym.corpus.module import Module
from mlgo_gym.storage.cache import write_atomically

SHORT_DIGEST = 16
"""Number of leading hexadecimal digits that identify a module, as in label files and bundled policies."""

SIDECAR = ".training.txt"
"""Suffix of the sidecar file."""


def sidecar(policy: Path) -> Path:
    """Return the path of a policy's sidecar file."""
    return policy.with_name(policy.name + SIDECAR)


def training_digest(module: Module) -> str:
    """Return the SHA-256 that identifies a module in training: of its source if known, else of its bitcode."""
    source = module.metadata.get("source_sha256")
    return source if isinstance(source, str) else module.digest()


def digest_lines(modules: Iterable[Module]) -> list[str]:
    """Return the lines of a sidecar file, one per `training_digest()`."""
    lines: dict[str, str] = {}
    for module in modules:
        lines.setdefault(training_digest(module), module.name)
    return _lines(lines)


def _lines(names: Mapping[str, str]) -> list[str]:
    return [f"{digest}  # {name}" for digest, name in names.items()]


def sidecar_digests(policy: Path) -> dict[str, str]:
    """Return module names by digest from the sidecar file of a policy; empty without that file."""
    file = sidecar(policy)
    lines = file.read_text().splitlines() if file.exists() else ()
    return {digest: name for digest, _, name in (line.partition("  # ") for line in lines)}


def write_sidecar_digests(policy: Path, names: Mapping[str, str], modules: Iterable[Module] = ()) -> None:
    """Write the digests of the modules that a policy was trained on, next to its file.

    `names` are module names by `training_digest()` or its leading digits; `modules` are those of its validation.
    """
    more = [line for line in digest_lines(modules) if not line.startswith(tuple(names))]
    write_atomically(sidecar(policy), "".join(f"{line}\n" for line in [*_lines(names), *more]).encode())
