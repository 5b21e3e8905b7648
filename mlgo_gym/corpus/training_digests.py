"""Digests of the modules that a policy was trained on: one per line of a sidecar file next to the policy's."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from mlgo_clang.files import read_untrusted
from mlgo_gym.cache import write_atomically
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.errors import CorpusError

SHORT_DIGEST = 16
"""Number of leading hexadecimal digits that identify a module, as in label files."""

SIDECAR = ".training.txt"
"""Suffix of the sidecar file."""

_DIGEST = re.compile(rf"[0-9a-f]{{{SHORT_DIGEST},64}}")


def sidecar(policy: Path) -> Path:
    """Return the path of a policy's sidecar file."""
    return policy.with_name(policy.name + SIDECAR)


def read_digests(file: Path) -> dict[str, str]:
    """Return the digests of a sidecar file with the comment of each, mostly the module's name.

    A line has any number of digests, or of their leading digits, and a comment after `#`. Raises `CorpusError` if the
    file cannot be read, or has a word that is no digest.
    """
    try:
        text = read_untrusted(file).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{file}: expected digests of modules, got an error: {error}") from error
    names: dict[str, str] = {}
    for words, _, comment in (line.partition("#") for line in text.splitlines()):
        for word in words.split():
            if not _DIGEST.fullmatch(word):
                raise CorpusError(
                    f"{file}: expected SHA-256 digests of {SHORT_DIGEST} to 64 hexadecimal digits, got {word[:80]!r}; "
                    "train the policy again"
                )
            names[word] = comment.strip()
    return names


def sidecar_digests(policy: Path) -> dict[str, str]:
    """Return module names by digest from the sidecar file of a policy; empty without that file."""
    file = sidecar(policy)
    return read_digests(file) if file.exists() else {}


def write_sidecar_digests(policy: Path, names: Mapping[str, str], modules: Iterable[Module] = ()) -> None:
    """Write the digests of the modules that a policy was trained on, next to its file.

    `names` are module names by `Module.source_digest()` or its leading digits; `modules` are those of its validation.
    """
    digests = dict(names)
    for module in modules:
        digest = module.source_digest()
        if not digest.startswith(tuple(names)):
            digests.setdefault(digest, module.name)
    lines = (f"{digest}  # {' '.join(name.split())}\n" for digest, name in digests.items())
    write_atomically(sidecar(policy), "".join(lines).encode(errors="replace"))
