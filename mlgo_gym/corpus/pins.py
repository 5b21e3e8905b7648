"""What a dataset of the catalogue has to hold: its modules by name, and for the bundled compiler their digest.

`mlgo-gym corpus catalogue --pins` writes it, from what is in the cache.
"""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mlgo_gym.corpus.catalogue import Dataset
from mlgo_gym.corpus.description import DESCRIPTION_FILE, read_description
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.cache import write_atomically

_FOLDER = Path(__file__).parent / "pins"


@dataclass(frozen=True, slots=True)
class Pins:
    """What a dataset holds.

    Attributes:
        archive: the digest of the sources that this is true of.
        modules: the names of the modules, in order.
        compiler: the version of the bundled clang that the digests are of.
        digests: by level, what `corpus_digest` returns.
    """

    archive: str
    modules: tuple[str, ...]
    compiler: str
    digests: Mapping[str, str]


def find_pins(dataset: Dataset) -> Pins | None:
    """Return the pins of a dataset, or None where there are none of these sources."""
    pins = _read(dataset.name)
    return pins if pins is not None and pins.archive == dataset.archive.sha256 else None


@lru_cache(maxsize=128)
def _read(name: str) -> Pins | None:
    path = _FOLDER / f"{name}.json"
    if not path.is_file():
        return None
    content = json.loads(path.read_bytes())
    return Pins(content["archive"], tuple(" ".join(content["modules"]).split()), content["clang"], content["digests"])


def missing_files(folder: Path, dataset: Dataset) -> list[str]:
    """Return what a dataset lacks: modules that are pinned, or files of modules that its description names.

    Raises:
        CorpusError: the description is broken.
    """
    if not (folder / DESCRIPTION_FILE).is_file():
        return [DESCRIPTION_FILE]
    modules = read_description(folder).modules
    pins = find_pins(dataset)
    there = set(modules)
    missing = [name for name in (pins.modules if pins else ()) if name not in there]
    files = (f"{name}{suffix}" for name in modules for suffix in (".bc", ".cmd"))
    return missing + [file for file in files if not (folder / file).is_file()]


def corpus_digest(folder: Path, modules: Sequence[str]) -> str:
    """Return a digest of the names, the bitcode and the flags of all modules of a folder.

    Raises:
        CorpusError: a file is missing.
    """
    digest = hashlib.sha256()
    for name in modules:
        try:
            parts = [
                hashlib.sha256((folder / f"{name}{suffix}").read_bytes()).hexdigest() for suffix in (".bc", ".cmd")
            ]
        except OSError as error:
            raise CorpusError(f"{folder}: the module {name} is not whole: {error}; fetch the dataset again") from error
        digest.update(f"{name} {' '.join(parts)}\n".encode())
    return digest.hexdigest()


def wrong_digest(folder: Path, dataset: Dataset, optimize: str, toolchain: Toolchain) -> str | None:
    """Return what is wrong with the digest of a dataset that the bundled compiler has made, if anything is."""
    pins = find_pins(dataset)
    if pins is None or not toolchain.bundled or pins.compiler != toolchain.version_text:
        return None
    wanted = pins.digests.get(optimize)
    found = corpus_digest(folder, read_description(folder).modules)
    if wanted is None or found == wanted:
        return None
    return f"the digest of its modules was to be {wanted}, and is {found}: it is not what others have; fetch it again"


def write_pins(dataset: Dataset, folders: Mapping[str, Path], compiler: str) -> Path:
    """Write the pins of a dataset from how it was made at some levels, and return the path.

    Raises:
        CorpusError: the levels differ in their modules.
    """
    modules = {level: read_description(folder).modules for level, folder in folders.items()}
    if len(set(modules.values())) != 1:
        raise CorpusError(f"{dataset.name}: its modules differ from level to level; make it again")
    (names,) = set(modules.values())
    content = {
        "archive": dataset.archive.sha256,
        "clang": compiler,
        "digests": {level: corpus_digest(folder, names) for level, folder in sorted(folders.items())},
        "modules": textwrap.wrap(" ".join(names), 118, break_long_words=False, break_on_hyphens=False),
    }
    path = _FOLDER / f"{dataset.name}.json"
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())
    return path
