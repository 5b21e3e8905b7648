"""Digests of training modules, and files of policies on their way elsewhere."""

from functools import partial
from pathlib import Path

import pytest

from mlgo_gym.corpus.training_digests import read_digests
from mlgo_gym.errors import CorpusError, PolicyError
from mlgo_gym.policies.loading import pack_policies, policy_identity, unpack_policy
from mlgo_gym.scheduling import FileStore


def test_digests_are_read_with_their_names(tmp_path: Path) -> None:
    file = tmp_path / "digests.txt"
    file.write_text(f"# two\n{'a' * 16} {'b' * 64}  # zstd/huf\n")
    assert read_digests(file) == {"a" * 16: "zstd/huf", "b" * 64: "zstd/huf"}
    file.write_text("zstd\n")
    with pytest.raises(CorpusError, match="expected SHA-256 digests of 16 to 64 hexadecimal digits, got 'zstd'"):
        read_digests(file)


def test_files_are_sent_and_get_new_names(tmp_path: Path, store: FileStore) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "model.tflite").write_bytes(b"model")
    (tmp_path / "net.safetensors").write_bytes(b"net")
    (tmp_path / "mine.py").write_text("class Mine: ...")
    specs = [f"mlp:{tmp_path}/net.safetensors", f"tflite:{tmp_path}/saved", f"{tmp_path}/mine.py:Mine"]
    identities = [policy_identity(specs[1])]
    for change in (lambda file: file.rename(f"{file}.other"), lambda file: file.write_bytes(b"other")):
        change(tmp_path / "saved" / "model.tflite")
        identities.append(policy_identity(specs[1]))
    (tmp_path / "saved" / "model.tflite.other").unlink()
    (tmp_path / "saved" / "model.tflite").write_bytes(b"model")
    assert len(set(identities)) == len(identities)
    others = ["default", "threshold:5", "clang:-O2,-g", "package.module:Name"]
    packed = pack_policies([*specs, *others, "last-call"])
    assert list(packed) == specs
    for spec, files in packed.items():
        store.put(spec, partial(dict, files))
    mlp, tflite, mine = (unpack_policy(spec, store) for spec in specs)
    assert Path(mlp.removeprefix("mlp:")).read_bytes() == b"net"
    assert Path(tflite.removeprefix("tflite:"), "model.tflite").read_bytes() == b"model"
    assert Path(mine.removesuffix(":Mine")).read_text() == "class Mine: ..."
    assert not any(str(tmp_path / name) in found for name in ("saved", "net", "mine") for found in (mlp, tflite, mine))
    assert [unpack_policy(spec, store) for spec in others] == others
    with pytest.raises(PolicyError, match="the files of mlp:/nowhere/net cannot be read"):
        pack_policies(["mlp:/nowhere/net"])
