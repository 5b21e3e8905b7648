"""The figures of targets from sizes of objects and links, and from compared objects."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from benchmarks.exactness import of_targets, own_choices
from benchmarks.targets import changes, open_builds, smallest
from docs.site import target_tables
from mlgo_gym.evaluation.compiled_objects import PLAIN
from mlgo_gym.llvm.object_file import object_sizes


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


def test_the_smallest_object_of_a_list_counts() -> None:
    sizes = {PLAIN: (100, 50), "threshold:0": (90, 60), "threshold:5": (1, 1), "inline-oz": (95, 45)}
    builds = {name: {"objects": {"a": first, "b": second}} for name, (first, second) in sizes.items()}
    found = smallest({"one": builds, "two": {PLAIN: {"error": "no object"}}}, (*builds, "unlimited:inline-oz"))[
        "objects"
    ]
    assert (found["modules"], found["worse"]) == (2, 0)
    assert found["total"] == pytest.approx(135 / 150 - 1)


def test_builds_lack_the_size_limit_or_keep_the_smaller_object() -> None:
    policies = ("default", "unlimited:default", "smaller:default", "smaller:unlimited:threshold:300")
    with ExitStack() as resources:
        builds = open_builds("builtin@Os@aarch64-linux", (*policies, "unlimited:threshold:300"), resources)
        objects = {name: build.file("cpp/linalg").read_bytes() for name, (_, build) in builds.items()}
    plain = objects.pop(PLAIN)
    assert [objects[name] == plain for name in policies] == [False, True, True, True]
    assert object_sizes(objects["default"]).text > object_sizes(plain).text


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


def test_a_cell_of_sizes_has_a_line_for_modules_for_links_and_after_wasm_opt(monkeypatch: pytest.MonkeyPatch) -> None:
    def facts(modules: int, mean: float, worse: int) -> dict[str, float]:
        return {"modules": modules, "mean": mean, "total": 2 * mean, "worse": worse}

    unchanged = {part: facts(number, 0, 0) for part, number in (("objects", 5), ("linked", 2), ("wasm-opt", 1))}
    smaller = {part: facts(number, -0.01, 1) for part, number in (("objects", 5), ("linked", 2), ("wasm-opt", 1))}
    found = {
        "wasm32-wasi Os default": unchanged,
        "wasm32-wasi Oz default": unchanged,
        "wasm32-wasi Oz inline-oz": smaller,
        "wasm32-wasi Oz inline-oz-wasm32-wasi": smaller,
        "wasm32-wasi Oz search": {"objects": facts(3, -0.04, 0)},
        "thumbv7em Oz default": {part: unchanged[part] for part in ("objects", "linked")},
    }
    monkeypatch.setattr(target_tables, "source", {"targets": {"changes": found}}.__getitem__)
    heading, *rows = target_tables.sizes()
    cells = [dict(zip(heading, row, strict=True)) for row in rows]
    assert [f"{each['target']} {each['level']}" for each in cells] == [
        "`thumbv7em` -Oz",
        "`wasm32-wasi` -Oz",
        "`wasm32-wasi` -Os",
    ]
    assert [each["size"] for each in cells[:2]] == ["modules<br>linked", "modules<br>linked<br>after `wasm-opt`"]
    assert [each["number"] for each in cells[:2]] == ["5<br>2", "5<br>2<br>1"]
    expected = "<br>".join(["\N{MINUS SIGN}1.00 %, \N{MINUS SIGN}2.00 %, 1"] * 3)
    assert cells[1]["bundled policy"] == cells[1]["policy of the target"] == expected
    assert cells[1]["search, 50 compiles"] == "\N{MINUS SIGN}4.00 %, \N{MINUS SIGN}8.00 %, 0 of 3"
    assert cells[2]["bundled policy"] == ""
