"""Corpora for several tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym.corpus.modules.corpus import Corpus
from mlgo_gym.corpus.modules.description import write_command, write_description, write_metadata
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.llvm.toolchain import Toolchain
from tests.corpus.untrusted import BENIGN

SIZES = {"lib/a.o": 30, "lib/b.o": 10, "main.o": 20}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A described corpus of three files of known sizes; `main.o` has no flags."""
    root = tmp_path / "made"
    for name, size in SIZES.items():
        path = root / f"{name}.bc"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
    write_command(root / "lib/a.o.cmd", ["-cc1", "-Oz", "-triple", "a"])
    write_command(root / "lib/b.o.cmd", ["-cc1", "-Os"])
    write_metadata(root, "lib/a.o", {"source": "a.c"})
    write_description(root, SIZES)
    return root


def many_modules(folder: Path, number: int) -> Path:
    """Describe a corpus of nine projects whose modules have no files; return its folder."""
    write_description(folder, [f"project{index % 9}/module{index}" for index in range(number)])
    return folder


COUNT = 40


@pytest.fixture
def compiled_twice(tmp_path: Path, calls: Path, leaf: Path, toolchain: Toolchain) -> Corpus:
    """A corpus of sources that libtool compiled twice, the last two of them identical."""
    folder = tmp_path / "twice"
    names = []
    for number in range(COUNT):
        for prefix in (".libs/", ""):
            name = f"{prefix}m{number}.o"
            path = folder / f"{name}.bc"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((leaf if number >= COUNT - 2 else calls).read_bytes())
            write_command(folder / f"{name}.cmd", BENIGN)
            digest = f"{name}" if number < COUNT - 2 else "the same"
            source = {"source": f"m{number}.c", "source_sha256": f"{number}", "bitcode_sha256": digest}
            write_metadata(folder, name, source)
            names.append(name)
    write_description(folder, names)
    return open_corpus(folder, toolchain=toolchain)
