"""What tells of modules that a policy was trained on: a digest in each line of a file beside the policy's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path

from mlgo_gym.corpus.module import Module
from mlgo_gym.storage.cache import write_atomically

SHORTEST = 16
"""So many digits of a digest are enough to tell a module; files of labels and of the box have no more."""

SIDECAR = ".training.txt"
"""What is added to the name of a policy's file."""


def sidecar(policy: Path) -> Path:
    """Return the file beside a policy's that tells what it was trained on."""
    return policy.with_name(policy.name + SIDECAR)


def training_digest(module: Module) -> str:
    """Return what tells a module that was trained on: the digest of its source where that is known, else its own."""
    source = module.metadata.get("source_sha256")
    return source if isinstance(source, str) else module.digest()


def digest_lines(modules: Iterable[Module]) -> list[str]:
    """Return the lines that tell of modules, one for each `training_digest()`."""
    lines: dict[str, str] = {}
    for module in modules:
        lines.setdefault(training_digest(module), module.name)
    return _lines(lines)


def _lines(names: Mapping[str, str]) -> list[str]:
    return [f"{digest}  # {name}" for digest, name in names.items()]


def write_sidecar(policy: Path, modules: Iterable[Module], *, start: Path | None = None) -> None:
    """Write what a policy was trained on beside its file.

    Args:
        policy: the policy's file.
        modules: what it was trained on, or chosen by.
        start: the policy that it began as; what that was trained on counts too.
    """
    before = sidecar(start).read_text().splitlines() if start is not None and sidecar(start).exists() else ()
    lines = dict.fromkeys(chain(before, digest_lines(modules)))
    write_atomically(sidecar(policy), "".join(f"{line}\n" for line in lines).encode())


def write_known_digests(policy: Path, names: Mapping[str, str], modules: Iterable[Module] = ()) -> None:
    """Write what a policy was trained on beside its file.

    Args:
        policy: the policy's file.
        names: a name of a module by its `training_digest()`, or by what that begins with.
        modules: further modules that it was chosen by.
    """
    more = [line for line in digest_lines(modules) if not line.startswith(tuple(names))]
    write_atomically(sidecar(policy), "".join(f"{line}\n" for line in [*_lines(names), *more]).encode())
