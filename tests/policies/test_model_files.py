"""Models in files: their digests, and their way to other machines."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.model_files import file_digest, pack_policies, unpack_policy
from mlgo_gym.scheduling.file_store import FileStore


def test_the_digest_depends_on_contents_and_on_names(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    part = tmp_path / "part" / "a"
    part.write_bytes(b"1")
    assert file_digest(part) == hashlib.sha256(b"1").hexdigest()
    first = file_digest(tmp_path)
    part.write_bytes(b"2")
    second = file_digest(tmp_path)
    part.rename(part.with_name("b"))
    assert len({first, second, file_digest(tmp_path)}) == 3


def test_files_are_sent_and_get_new_names(tmp_path: Path, store: FileStore) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "model.tflite").write_bytes(b"model")
    (tmp_path / "net.safetensors").write_bytes(b"net")
    (tmp_path / "mine.py").write_text("class Mine: ...")
    specs = [f"mlp:{tmp_path}/net.safetensors", f"tflite:{tmp_path}/saved", f"{tmp_path}/mine.py:Mine"]
    others = ["default", "threshold:5", "clang:-O2,-g", "package.module:Name"]
    packed = pack_policies([*specs, *others, "inline-oz"])
    assert list(packed) == specs
    for spec, files in packed.items():
        store.put(spec, lambda files=files: files)  # type: ignore[misc]
    mlp, tflite, mine = (unpack_policy(spec, store) for spec in specs)
    assert Path(mlp.removeprefix("mlp:")).read_bytes() == b"net"
    assert Path(tflite.removeprefix("tflite:"), "model.tflite").read_bytes() == b"model"
    assert Path(mine.removesuffix(":Mine")).read_text() == "class Mine: ..."
    assert not any(str(tmp_path / name) in found for name in ("saved", "net", "mine") for found in (mlp, tflite, mine))
    assert [unpack_policy(spec, store) for spec in others] == others
    with pytest.raises(PolicyError, match="the files of mlp:/nowhere/net cannot be read"):
        pack_policies(["mlp:/nowhere/net"])
