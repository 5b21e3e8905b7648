"""What tells the files of models apart."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mlgo_gym.policies.box import box_file
from mlgo_gym.policies.loading import policy_identity
from mlgo_gym.policies.model_files import file_digest


def test_the_digest_of_a_file_is_that_of_its_bytes() -> None:
    file = box_file("inline-oz", calls=True)
    assert file_digest(file) == hashlib.sha256(file.read_bytes()).hexdigest()
    assert policy_identity("inline-oz") == f"inline-oz {file_digest(file)}"


def test_the_digest_of_a_folder_depends_on_contents_and_on_names(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    part = tmp_path / "part" / "a"
    part.write_bytes(b"1")
    first = file_digest(tmp_path)
    part.write_bytes(b"2")
    second = file_digest(tmp_path)
    part.rename(part.with_name("b"))
    assert len({first, second, file_digest(tmp_path)}) == 3
