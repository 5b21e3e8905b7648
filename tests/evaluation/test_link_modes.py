"""Links repeated in other modes: unused sections, folded functions, link time optimisation, a policy in the linker."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.deploy.link_plugins import build_link_plugins, llvm_of
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation import Evaluation
from mlgo_gym.evaluation.compiled_objects import PLAIN
from mlgo_gym.evaluation.link_modes import BOTH, COMPILE, LINK
from mlgo_gym.evaluation.linking import linked_table
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain
from tests.evaluation.test_linking import record

CLANG = "clang-22"
WHOLE = "$CC main.o -Wl,--whole-archive libcalls.a -Wl,--no-whole-archive -o program"


def test_unused_functions_leave_the_file(tmp_path: Path, toolchain: Toolchain) -> None:
    corpus = record(tmp_path, WHOLE, toolchain, "")
    with Evaluation("mlgo/Inline-v0", policies=["always"], corpus=str(corpus)) as evaluation:
        rows = list(evaluation.link(modes=["recorded", "gc", "thin", "full"]))
    assert [row.error for row in rows] == [None] * 8
    linked = {(row.policy, row.mode): row.linked for row in rows}
    assert linked[PLAIN, "gc"] < linked[PLAIN, "recorded"]
    # Without a plugin the policy decides in the compile alone.
    assert {row.place for row in rows} == {COMPILE}
    assert [row.lto for row in rows if row.policy == PLAIN] == [None, None, "thin", "full"]
    assert [cells[1] for cells in linked_table(rows).rows[:4]] == [
        "program", "program (gc)", "program (thin)", "program (full)",
    ]  # fmt: skip


def test_the_command_evaluates_by_the_linked_size_and_links_again(tmp_path: Path, toolchain: Toolchain) -> None:
    corpus = record(tmp_path, "$CC main.o libcalls.a -o program", toolchain)
    arguments = ["evaluate", "mlgo/Inline-v0", "--corpus", str(corpus), "--policy", "always", "--json"]
    arguments += ["--metric", "estimated-linked", "--link-as", "gc,thin"]
    result = CliRunner().invoke(application, arguments)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["configuration"]["metric"] == "estimated-linked"
    assert [row["mode"] for row in found["links"]] == ["gc", "thin"] * 2
    assert "loads no plugin" in result.stderr


def test_an_unknown_mode_is_named(tmp_path: Path, toolchain: Toolchain) -> None:
    corpus = record(tmp_path, "$CC main.o libcalls.a -o program", toolchain)
    with (
        Evaluation("mlgo/Inline-v0", policies=["always"], corpus=str(corpus)) as evaluation,
        pytest.raises(MlgoError, match="expected link modes of recorded, gc, icf, thin, full, got 'lto'"),
    ):
        list(evaluation.link(modes=["lto"]))


def test_a_static_compiler_has_no_plugin_and_says_so(tmp_path: Path, toolchain: Toolchain) -> None:
    plugins, missing = build_link_plugins(["always"], toolchain, tmp_path)
    assert plugins == {}
    assert "loads no plugin, so policies decide in compiles alone; for links use --clang clang-22" in missing


@pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")
def test_a_policy_decides_in_the_linker(tmp_path: Path) -> None:
    toolchain = find_toolchain(CLANG)
    if llvm_of(toolchain) is None:
        pytest.skip("lld-22 or llvm-22-dev is not installed")
    corpus = record(tmp_path, WHOLE, toolchain, "")
    plugins, missing = build_link_plugins(["never"], toolchain, tmp_path)
    assert missing == ""
    kwargs = {"clang": CLANG}
    with Evaluation("mlgo/Inline-v0", policies=["never"], corpus=str(corpus), env_kwargs=kwargs) as evaluation:
        rows = list(evaluation.link(modes=["icf", "thin", "full"], plugins=plugins))
    assert [row.error for row in rows] == [None] * len(rows)
    linked = {(row.policy, row.mode, row.place): row.linked for row in rows}
    assert {place for policy, _, place in linked if policy == "never"} == {COMPILE, LINK, BOTH}
    for mode in ("thin", "full"):
        # `never` in the compile alone leaves the calls to the linker, which inlines them by clang's own heuristic.
        assert linked["never", mode, BOTH] != linked["never", mode, COMPILE]
