"""Corpora for several tests."""

from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from mlgo_gym.corpus.folder import write_command, write_description, write_metadata
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.corpus.recording.recorder import Recording
from mlgo_gym.llvm.toolchain import Toolchain

SIZES = {"lib/a.o": 30, "lib/b.o": 10, "main.o": 20}


def record(project: Path, script: str | list[str], toolchain: Toolchain, **options: Any) -> Recording:
    """Record a shell script or a command as the build of a folder; the corpus is `project/../corpus`."""
    command = ["sh", "-ec", script] if isinstance(script, str) else script
    return record_build(command, project.parent / "corpus", toolchain=toolchain, folder=project, **options)


def executable_sections(path: Path) -> dict[str, bytes]:
    """Return the contents of the executable sections of an object file."""
    with path.open("rb") as file:
        return {part.name: part.data() for part in ELFFile(file).iter_sections() if part["sh_flags"] & 4}


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
