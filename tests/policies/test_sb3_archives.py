"""Archives that are no models of stable-baselines3 are refused before any of their contents is used."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import mlgo_gym.policies.sb3 as sb3_module
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.sb3 import read_sb3


def make_archive(path: Path, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("policy.pth", bytes(range(256)) * 40)
        archive.writestr("data", "{}")
    return path


def test_an_entry_that_would_fill_the_memory_is_refused(
    inline: CompilerEnv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sb3_module, "LARGEST_ENTRY", 10_000)
    with pytest.raises(PolicyError, match=r"expected at most 10000 bytes in 'policy\.pth' of .*, got 10240"):
        read_sb3(make_archive(tmp_path / "m.zip"), inline)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_archive_is_refused(method: int, inline: CompilerEnv, tmp_path: Path) -> None:
    path = make_archive(tmp_path / "m.zip", method)
    data = bytearray(path.read_bytes())
    for position in range(60, 140, 5):
        data[position] ^= 0x5A
    path.write_bytes(data)
    with pytest.raises(PolicyError, match="expected a model of stable-baselines3"):
        read_sb3(path, inline)


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04"])
def test_other_files_are_refused(content: bytes, inline: CompilerEnv, tmp_path: Path) -> None:
    (tmp_path / "m.zip").write_bytes(content)
    with pytest.raises(PolicyError, match="expected a model of stable-baselines3"):
        read_sb3(tmp_path / "m.zip", inline)
