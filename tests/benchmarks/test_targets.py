"""The figures of targets from sizes of objects and links, and from compared objects."""

from __future__ import annotations

import pytest

from benchmarks.exactness import of_targets, own_choices
from benchmarks.targets import changes
from mlgo_gym.evaluation.compiled_objects import PLAIN


def test_a_change_counts_modules_links_and_whole_webassembly_files() -> None:
    plain = {"objects": {"a": 100, "b": 50}, "linked": 140, "files": [1000, 800]}
    other = {"objects": {"a": 90, "b": 55}, "linked": 133, "files": [990, 796]}
    failed = {"error": "the link fails"}
    found = changes(
        {"one": {PLAIN: plain, "inline-oz": other}, "two": {PLAIN: plain, "inline-oz": failed}}, "inline-oz"
    )
    assert (found["objects"]["modules"], found["objects"]["worse"], found["linked"]["modules"]) == (2, 1, 1)
    assert found["objects"]["total"] == pytest.approx(145 / 150 - 1)
    assert found["linked"]["total"] == pytest.approx(-0.05)
    assert [found[name]["total"] for name in ("file", "wasm-opt")] == pytest.approx([-0.01, -0.005])


def test_compared_objects_of_other_targets_have_a_table_of_their_own() -> None:
    entry = {"environment": "mlgo/Inline-v0", "decisions": 3, "equal": True, "module": "c/json"}
    different = {"equal": False, "text": [10, 12], "explained": "the size cut-off"}
    own = [
        {**entry, "corpus": "builtin@Os@thumbv7em"},
        {**entry, **different, "corpus": "builtin@Os@thumbv7em"},
        {**entry, "corpus": "builtin@Os"},
    ]
    assert list(of_targets(own))[1:] == [["`thumbv7em`", "0", "0", "2", "1", "1", "0", "0"]]
    assert [row[2] for row in list(own_choices(own, []))[1:]] == ["1"]
