"""The modules that a policy was trained on, by digest: what was learned from must not be what is measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from mlgo_gym.corpus.digests import SHORTEST, sidecar
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.module_facts import ModuleFacts
from mlgo_gym.storage.foreign_file import read_foreign
from mlgo_gym.storage.tensors import read_tensors

METADATA = "training_modules"
"""The key in the metadata of a policy in safetensors: digests with spaces between."""

_DIGEST = re.compile(rf"[0-9a-f]{{{SHORTEST},64}}")


def parse_digests(text: str, origin: str) -> frozenset[str]:
    """Return the digests in a text; what follows a `#` in a line is left out.

    They are the SHA-256 of modules' bitcode or of their sources, in hexadecimal, or at least the first 16 digits: the
    source is the same at every level.

    Raises:
        MlgoError: a word is none.
    """
    words = " ".join(line.partition("#")[0] for line in text.lower().splitlines()).split()
    for word in words:
        if not _DIGEST.fullmatch(word):
            raise MlgoError(
                f"{origin} was to have SHA-256 of modules in hexadecimal, of {SHORTEST} digits at least, found "
                f"{word[:80]!r}; `mlgo-gym leaderboard digests` prints them"
            )
    return frozenset(words)


def read_digests(file: Path) -> frozenset[str]:
    """Return the digests in a file.

    Raises:
        MlgoError: it cannot be read, or holds something else.
    """
    try:
        text = read_foreign(file).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise MlgoError(f"{file} was to list digests of modules, and cannot be read: {error}") from error
    return parse_digests(text, str(file))


def digests_of_policy(file: Path) -> frozenset[str] | None:
    """Return what a policy's file says it was trained on, in its metadata or in the file beside it; None: nothing.

    Raises:
        MlgoError: the file cannot be read, or what it says are no digests.
    """
    found: list[frozenset[str]] = []
    beside = sidecar(file)
    if beside.exists():
        found.append(read_digests(beside))
    if file.suffix == ".safetensors":
        _, metadata = read_tensors(file)
        if METADATA in metadata:
            found.append(parse_digests(metadata[METADATA], str(file)))
    return frozenset().union(*found) if found else None


def trained_on(digests: frozenset[str], modules: Mapping[str, ModuleFacts]) -> list[str]:
    """Return which of the modules were trained on, sorted."""
    lengths = {len(digest) for digest in digests}

    def known(digest: str | None) -> bool:
        return digest is not None and any(digest[:length] in digests for length in lengths)

    return sorted(name for name, facts in modules.items() if known(facts.digest) or known(facts.source))
