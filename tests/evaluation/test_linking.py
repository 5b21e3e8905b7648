"""Sizes of linked programs with the objects of policies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation import Evaluation
from mlgo_gym.evaluation.compiled_objects import PLAIN
from mlgo_gym.evaluation.linking import LinkedSize, linked_table
from mlgo_gym.llvm.toolchain import Toolchain

CALLS = """
static int sum{0}(int n) {{ int s = 0; for (int i = 0; i < n; ++i) s += i * n * {1}; return s; }}
static int twice{0}(int n) {{ return sum{0}(n) + sum{0}(n + 1); }}
int {0}(int n) {{ return twice{0}(n) + sum{0}(n) + twice{0}(2); }}
"""
MAIN = "int used(int n); int main(int n, char **v) { return used(n); }\n"
POLICIES = ("default", "always")


def record(folder: Path, link: str, toolchain: Toolchain, flags: str = "-ffunction-sections") -> Path:
    """Record a build of a program that uses one of the two functions with decisions of its library."""
    project = folder / "project"
    project.mkdir()
    (project / "calls.c").write_text(CALLS.format("used", 3) + CALLS.format("unused", 5))
    (project / "main.c").write_text(MAIN)
    script = f"$CC {flags} -c calls.c main.c; ar rcs libcalls.a calls.o; {link}"
    build = record_build(["sh", "-ec", script], folder / "corpus", toolchain=toolchain, folder=project)
    assert build.status == 0
    return folder / "corpus"


def test_a_gain_in_unused_code_vanishes_in_the_link(tmp_path: Path, toolchain: Toolchain) -> None:
    keep, drop = "-Wl,--no-gc-sections -Wl,--whole-archive", "-Wl,--gc-sections -Wl,--whole-archive"
    link = "".join(f"$CC main.o {flags} libcalls.a -o {name};" for name, flags in (("all", keep), ("needed", drop)))
    corpus = record(tmp_path, link, toolchain)
    with Evaluation("mlgo/Inline-v0", policies=POLICIES, corpus=str(corpus), output=tmp_path / "output") as evaluation:
        rows = list(evaluation.link())
    assert [(row.policy, row.output) for row in rows] == [
        (policy, output) for policy in (PLAIN, *POLICIES) for output in ("all", "needed")
    ]
    assert all(row.error is None and row.modules == 2 for row in rows)
    found = {(row.policy, row.output): row for row in rows}
    for output in ("all", "needed"):
        plain, default, always = (found[policy, output] for policy in (PLAIN, *POLICIES))
        assert (default.objects, default.linked) == (plain.objects, plain.linked)
        assert always.objects > plain.objects
        grown = (always.linked - plain.linked) / (always.objects - plain.objects)
        # A change in a function that nobody calls counts only if that function is linked.
        assert (0.9 < grown < 1.2) if output == "all" else (grown < 0.9)
    assert json.loads((tmp_path / "output" / "links.json").read_bytes()) == [asdict(row) for row in rows]
    table = linked_table(rows)
    assert [row[:2] for row in table.rows[-3:]] == [("always", "all"), ("always", "needed"), ("always", "all")]


class Always:
    """Always inlines, and records the module of each first decision."""

    def __init__(self) -> None:
        self.started: list[str] = []

    def act(self, _observation: object, info: Mapping[str, Any]) -> int:
        if info["decision_index"] == 0:
            self.started.append(info["module"])
        return 1


def test_with_link_time_optimisation_the_policy_decides_before_the_link(tmp_path: Path, toolchain: Toolchain) -> None:
    link = "$CC -flto main.o libcalls.a -Wl,--gc-sections -o program"
    corpus = record(tmp_path, link, toolchain, "-flto")
    policy = Always()
    with Evaluation("mlgo/Inline-v0", policies={"mine": policy}, corpus=str(corpus)) as evaluation:
        plain, always = evaluation.link()
    assert (plain.lto, always.lto, plain.error, always.error) == ("full", "full", None, None)
    assert policy.started == ["calls.o", "calls.o"], "once for the object, once for the bitcode that is linked"
    assert always.objects > plain.objects
    assert always.linked > 0 < plain.linked


def test_a_policy_with_callee_features_decides_for_a_link(tmp_path: Path, toolchain: Toolchain) -> None:
    corpus = record(tmp_path, "$CC main.o libcalls.a -o program", toolchain)
    with Evaluation("mlgo/Inline-v0", policies=["inline-oz"], corpus=str(corpus)) as evaluation:
        rows = list(evaluation.link())
    assert [(row.policy, row.error) for row in rows] == [(PLAIN, None), ("inline-oz", None)]
    assert rows[1].linked > 0


def test_a_corpus_without_links_is_refused() -> None:
    with (
        Evaluation("mlgo/Inline-v0", policies=["default"], corpus="builtin", limit=1) as evaluation,
        pytest.raises(MlgoError, match="expected a corpus with link steps"),
    ):
        next(evaluation.link())


def test_a_failed_link_is_excluded_from_sums() -> None:
    rows = [
        LinkedSize(PLAIN, "a", None, 1, 100, 1000),
        LinkedSize(PLAIN, "b", None, 2, 200, 2000),
        LinkedSize("never", "a", None, 1, 90, 995),
        LinkedSize("never", "b", None, 2, 180, 0, "the linker said no"),
    ]
    last = linked_table(rows).rows[-2:]
    assert last[0] == ("never", "a", "1", "90", "-10.00%", "995", "-0.50%", "50%")
    assert last[1][5] == "not linked"
