"""Bundled policies: found by name, and not trained on the test split; files of models, and their way elsewhere."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym import load_policy, open_corpus
from mlgo_gym.corpus.parts import Part
from mlgo_gym.corpus.training_digests import SHORT_DIGEST, read_digests, sidecar_digests
from mlgo_gym.errors import CorpusError, PolicyError
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.loading import (
    bundled_policies,
    file_digest,
    pack_policies,
    policy_file,
    policy_identity,
    unpack_policy,
)
from mlgo_gym.scheduling import FileStore


def test_every_bundled_policy_loads_has_a_card_and_decides(corpus: Path, varied: str) -> None:
    inlining = make_environment("mlgo/Inline-v0", {"corpus": str(corpus), "callee_features": True})
    evictions = make_environment("mlgo/RegAllocEvict-v0", {"corpus": varied})
    for name in bundled_policies():
        env, module = (evictions, "mixed") if name == "evict" else (inlining, "calls")
        observation, info = env.reset(options={"module": module})
        assert load_policy(name, env).act(observation, info) in np.flatnonzero(info.get("action_mask", (1, 1)))
        file = policy_file(name)
        assert policy_identity(name) == f"{name} {file_digest(file)}"
        assert file.with_suffix(".md").is_file()
        assert file.with_suffix(".json").is_file()


def test_no_bundled_policy_was_trained_on_a_module_of_the_test_split(toolchain: Toolchain, tmp_path: Path) -> None:
    builtin = open_corpus("builtin", toolchain=toolchain)
    parts: dict[Part, set[str]] = {
        part: {module.source_digest()[:SHORT_DIGEST] for module in builtin.split(part)} for part in ("train", "test")
    }
    for name in bundled_policies():
        digests = set(sidecar_digests(policy_file(name)))
        assert not digests & parts["test"], name
        assert len(digests & parts["train"]) >= 15, name
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
    others = ["default", "threshold:5", "clang:-O2,-g", "package.module:Name"]
    packed = pack_policies([*specs, *others, "inline-oz"])
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
