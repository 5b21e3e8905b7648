"""The one-hot vocabulary of IR2Vec, and the files of vocabularies."""

from __future__ import annotations

import json
from pathlib import Path

from mlgo_gym.llvm.ir2vec import ENTITIES, one_hot_vocabulary, vocabulary_file


def test_each_entity_has_a_component_and_a_vocabulary_a_name_that_its_content_decides(
    own_cache: Path, tmp_path: Path
) -> None:
    scales = {"Opcodes": 1.0, "Types": 2.0, "Arguments": 5.0}
    vectors = [
        (scale, vector) for section, scale in scales.items() for vector in one_hot_vocabulary()[section].values()
    ]
    assert len(vectors) == len(ENTITIES) == 110
    for position, (scale, vector) in enumerate(vectors):
        assert [(index, value) for index, value in enumerate(vector) if value] == [(position, scale)]
    built_in, own = vocabulary_file("one-hot"), tmp_path / "own.json"
    assert json.loads(built_in.read_text()) == one_hot_vocabulary()
    own.write_text('{"Opcodes": {"Ret": [1]}, "Types": {}, "Arguments": {}}')
    assert vocabulary_file("one-hot") == built_in != vocabulary_file(str(own))
