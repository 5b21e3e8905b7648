"""Digests of the modules that a policy was trained on: no policy should be measured on them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from mlgo_gym.corpus.modules.training_digests import SHORT_DIGEST, sidecar
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.module_facts import ModuleFacts
from mlgo_gym.storage.tensors import read_tensors
from mlgo_gym.storage.untrusted_file import read_untrusted

METADATA = "training_modules"
"""Key in the metadata of a safetensors policy; its value has digests separated by spaces."""

_DIGEST = re.compile(rf"[0-9a-f]{{{SHORT_DIGEST},64}}")


def parse_digests(text: str, origin: str) -> frozenset[str]:
    """Return the digests in a text; `#` starts a comment.

    A digest is the SHA-256 of a module's bitcode or source in hexadecimal, or at least its first 16 digits. A module
    has the same source at every level.

    Raises:
        MlgoError: A word is no digest.
    """
    words = " ".join(line.partition("#")[0] for line in text.lower().splitlines()).split()
    for word in words:
        if not _DIGEST.fullmatch(word):
            raise MlgoError(
                f"{origin}: expected SHA-256 digests of {SHORT_DIGEST} to 64 hexadecimal digits, got {word[:80]!r}; "
                "`mlgo-gym leaderboard digests` prints them"
            )
    return frozenset(words)


def read_digests(file: Path) -> frozenset[str]:
    """Return the digests in a file.

    Raises:
        MlgoError: The file cannot be read, or has a word that is no digest.
    """
    try:
        text = read_untrusted(file).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise MlgoError(f"{file}: expected digests of modules, got an error: {error}") from error
    return parse_digests(text, str(file))


def digests_of_policy(file: Path) -> frozenset[str] | None:
    """Return the digests in a policy's metadata and in the file beside it; None if it has neither.

    Raises:
        MlgoError: The file cannot be read, or has a word that is no digest.
    """
    beside = sidecar(file)
    found = [read_digests(beside)] if beside.exists() else []
    metadata = read_tensors(file)[1] if file.suffix == ".safetensors" else {}
    found += [parse_digests(metadata[METADATA], str(file))] if METADATA in metadata else []
    return frozenset().union(*found) if found else None


def trained_on(digests: frozenset[str], modules: Mapping[str, ModuleFacts]) -> list[str]:
    """Return the names of the modules with one of the digests, sorted."""
    lengths = {len(digest) for digest in digests}

    def listed(digest: str | None) -> bool:
        return digest is not None and any(digest[:length] in digests for length in lengths)

    return sorted(name for name, facts in modules.items() if listed(facts.digest) or listed(facts.source))
