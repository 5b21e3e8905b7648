"""Policies on a machine that does not have their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.shipping import pack_policies, unpack_policy
from mlgo_gym.scheduling.shelf import Shelf, digest_of


def test_what_is_in_files_is_sent_and_named_anew(tmp_path: Path, shelf: Shelf) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "model.tflite").write_bytes(b"model")
    (tmp_path / "net.safetensors").write_bytes(b"net")
    (tmp_path / "mine.py").write_text("class Mine: ...")
    specs = [f"mlp:{tmp_path}/net.safetensors", f"tflite:{tmp_path}/saved", f"{tmp_path}/mine.py:Mine"]
    packed = pack_policies([*specs, "default", "threshold:5", "clang:-O2", "package.module:Name", "inline-oz"])
    assert list(packed) == specs
    for spec, good in packed.items():
        shelf.put(spec, digest_of(good), lambda good=good: good)  # type: ignore[misc]
    mlp, tflite, mine = (unpack_policy(spec, shelf) for spec in specs)
    assert Path(mlp.removeprefix("mlp:")).read_bytes() == b"net"
    assert Path(tflite.removeprefix("tflite:"), "model.tflite").read_bytes() == b"model"
    assert Path(mine.removesuffix(":Mine")).read_text() == "class Mine: ..."
    assert not any(str(tmp_path / name) in found for name in ("saved", "net", "mine") for found in (mlp, tflite, mine))


@pytest.mark.parametrize("spec", ["default", "threshold:5", "clang:-O2,-g", "package.module:Name"])
def test_what_is_in_no_file_stays_as_it_is(spec: str, shelf: Shelf) -> None:
    assert unpack_policy(spec, shelf) == spec


def test_a_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(PolicyError, match="the files of mlp:/nowhere/net were to be sent, and cannot be read"):
        pack_policies(["mlp:/nowhere/net"])
