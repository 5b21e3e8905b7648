"""The one-hot vocabulary of IR2Vec, and the files of vocabularies."""

from __future__ import annotations

import json
from pathlib import Path

from mlgo_gym.llvm.ir2vec import ENTITIES, one_hot_vocabulary, vocabulary_file


def test_each_entity_has_a_component_of_its_own() -> None:
    vocabulary = one_hot_vocabulary()
    scales = {"Opcodes": 1.0, "Types": 2.0, "Arguments": 5.0}
    vectors = [(scale, vector) for section, scale in scales.items() for vector in vocabulary[section].values()]
    assert [name for section in scales for name in vocabulary[section]] == [*ENTITIES]
    assert len(vectors) == len(ENTITIES) == 110
    for position, (scale, vector) in enumerate(vectors):
        assert [(index, value) for index, value in enumerate(vector) if value] == [(position, scale)]


def test_a_vocabulary_is_stored_under_a_name_that_its_content_decides(own_cache: Path, tmp_path: Path) -> None:
    built_in = vocabulary_file("one-hot")
    assert json.loads(built_in.read_text()) == one_hot_vocabulary()
    assert vocabulary_file("one-hot") == built_in
    own, files = tmp_path / "own.json", {built_in}
    for opcodes in ({}, {"Ret": [1]}):
        own.write_text(json.dumps({"Opcodes": opcodes, "Types": {}, "Arguments": {}}))
        files.add(vocabulary_file(str(own)))
    assert len(files) == 3
    assert all(file.is_file() for file in files)
