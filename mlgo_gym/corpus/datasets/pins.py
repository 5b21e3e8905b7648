"""Pinned content of the catalogue's datasets: module names, and digests for the bundled compiler.

`mlgo-gym corpus catalogue --pins` writes the pins from the datasets in the cache.
"""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.corpus.datasets.catalogue import Dataset, own_description
from mlgo_gym.corpus.folder import DESCRIPTION_FILE, read_description
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.cache import write_atomically

_FOLDER = Path(__file__).parent / "pins"


@dataclass(frozen=True, slots=True)
class Pins:
    """Expected content of a dataset.

    Attributes:
        modules: module names in order.
        compiler: version of the bundled clang that the digests belong to.
        digests: `corpus_digest()` by level.
    """

    modules: tuple[str, ...]
    compiler: str
    digests: Mapping[str, str]


def _path(dataset: Dataset) -> Path:
    own = own_description(dataset.name)
    return (_FOLDER if own is None else own.parent / "pins") / f"{dataset.name}.json"


def find_pins(dataset: Dataset) -> Pins | None:
    """Return the pins of a dataset, or None if there are none for its sources and its target."""
    path = _path(dataset)
    content = json.loads(path.read_bytes()) if path.is_file() else {}
    if content.get("archive") != dataset.archive.sha256 or dataset.target:
        return None
    return Pins(tuple(" ".join(content["modules"]).split()), content["clang"], content["digests"])


def missing_files(folder: Path, dataset: Dataset) -> list[str]:
    """Return the pinned modules and the modules' files that a dataset lacks."""
    if not (folder / DESCRIPTION_FILE).is_file():
        return [DESCRIPTION_FILE]
    modules = read_description(folder).modules
    pins = find_pins(dataset)
    present = set(modules)
    missing = [name for name in (pins.modules if pins else ()) if name not in present]
    files = (f"{name}{suffix}" for name in modules for suffix in (".bc", ".cmd"))
    return missing + [file for file in files if not (folder / file).is_file()]


def corpus_digest(folder: Path, modules: Sequence[str]) -> str:
    """Return a SHA-256 of the names, bitcode and flags of modules; raise `CorpusError` if a file is missing."""
    digest = hashlib.sha256()
    for name in modules:
        try:
            files = [(folder / f"{name}{suffix}").read_bytes() for suffix in (".bc", ".cmd")]
        except OSError as error:
            raise CorpusError(f"{folder}: the module {name} is incomplete: {error}; fetch the dataset again") from error
        parts = [hashlib.sha256(data).hexdigest() for data in files]
        digest.update(f"{name} {' '.join(parts)}\n".encode())
    return digest.hexdigest()


def wrong_digest(folder: Path, dataset: Dataset, optimize: str, toolchain: Toolchain) -> str | None:
    """Return an error text if the bundled compiler compiled a dataset to modules other than the pinned ones."""
    pins = find_pins(dataset)
    if pins is None or not toolchain.bundled or pins.compiler != toolchain.version_text:
        return None
    pinned = pins.digests.get(optimize)
    found = corpus_digest(folder, read_description(folder).modules)
    if pinned is None or found == pinned:
        return None
    return f"expected the digest {pinned} of its modules, got {found}; fetch it again"


def write_pins(dataset: Dataset, folders: Mapping[str, Path], compiler: str) -> Path:
    """Write the pins of a dataset from its folder by level; return the path. Raise `CorpusError` if modules differ."""
    modules = {level: read_description(folder).modules for level, folder in folders.items()}
    if len(set(modules.values())) != 1:
        raise CorpusError(f"{dataset.name}: expected equal modules at all levels; fetch it again")
    (names,) = set(modules.values())
    content = {
        "archive": dataset.archive.sha256,
        "clang": compiler,
        "digests": {level: corpus_digest(folder, names) for level, folder in sorted(folders.items())},
        "modules": textwrap.wrap(" ".join(names), 118, break_long_words=False, break_on_hyphens=False),
    }
    path = _path(dataset)
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
    return path
