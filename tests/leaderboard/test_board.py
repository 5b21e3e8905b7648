"""A board accepts only reproduced sizes, and flags policies that were trained on evaluated modules."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.corpus.modules.training_digests import digest_lines, sidecar_digests, write_sidecar_digests
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.evaluation.module_facts import ModuleFacts
from mlgo_gym.leaderboard.board import RESULTS, Submission, add, load_board
from mlgo_gym.leaderboard.standings import as_data, remarks, standings
from mlgo_gym.leaderboard.training_digests import METADATA, digests_of_policy, parse_digests, trained_on
from mlgo_gym.leaderboard.verification import reproduce
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.policies.bundled import bundled_file, bundled_policies
from mlgo_gym.policies.loading import policy_identity
from mlgo_gym.policies.model_files import file_digest
from mlgo_gym.storage.tensors import format_tensors

MODULES = 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """An evaluation of two modules of the protocol."""
    folder = tmp_path_factory.mktemp("made") / "run"
    evaluate(
        "mlgo/Inline-v0",
        policies=["default", "threshold:5"],
        corpus="builtin@Os",
        split="test",
        limit=MODULES,
        output=folder,
    )
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(shutil.copytree(made, tmp_path / "run"))


def submit(run: Path, **others: Any) -> Submission:
    return add(run, run.parent / "board", "ours", **others, partial=True)


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> str:
    """Change the line of one module, and return its name."""
    path = folder / "episodes.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    line = next(line for line in lines if line["policy"] == "threshold:5")
    change(line)
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return str(line["module"])


def shrink(line: dict[str, Any]) -> None:
    line["metrics"]["text"][0] -= 8


def test_reproduced_results_are_on_the_board(run: Path) -> None:
    added = submit(run, method="a rule of one line")
    (found,) = load_board(run.parent / "board")
    assert found == added
    data = as_data(found)
    assert (data["policy"], data["level"], data["verified"], data["of"]) == ("threshold:5", "Os", MODULES, MODULES)
    assert len(data["missing"]["datasets"]) == 19
    (table,) = standings([found])
    assert max(map(len, table.as_text().splitlines())) <= 80
    assert table.rows[0][0] == "ours"
    assert table.rows[0][-2:] == (f"{MODULES}/{MODULES}", "partial")
    assert not reproduce(found.folder / RESULTS, sample=1).problems


def test_results_must_be_complete_unless_partial_is_accepted(run: Path) -> None:
    with pytest.raises(MlgoError, match="19 of 20 datasets"):
        add(run, run.parent / "board", "ours")


def test_a_forged_size_is_refused_by_its_module(run: Path) -> None:
    module = edit(run, shrink)
    with pytest.raises(MlgoError, match=rf"refused.*\n  {module}: text was"):
        submit(run)
    assert list((run.parent / "board").iterdir()) == []


def test_a_size_that_is_forged_on_the_board_is_a_problem(run: Path) -> None:
    folder = submit(run).folder
    module = edit(folder / RESULTS, shrink)
    (found,) = load_board(run.parent / "board")
    assert found.verification is None
    assert "never reproduced" in "\n".join(remarks([found]))
    assert [each.module for each in reproduce(folder / RESULTS).problems] == [module]


def test_a_missing_trace_is_refused_by_its_module(run: Path) -> None:
    module = edit(run, lambda line: line.update(actions=None))
    with pytest.raises(MlgoError, match=f"{module}: expected recorded actions"):
        submit(run)


def test_a_module_with_decisions_is_not_excluded(run: Path) -> None:
    module = edit(run, lambda line: line.update(status="no-decisions"))
    with pytest.raises(MlgoError, match=f"{module}: expected no decisions, got some"):
        submit(run)


def test_a_compile_that_failed_counts_as_clangs_own(run: Path) -> None:
    sizes = []

    def fail(line: dict[str, Any]) -> None:
        sizes.append(line["metrics"]["text"][1])
        line.update(status="failed", metrics={}, error={"kind": "exit", "message": "no"})

    module = edit(run, fail)
    added = submit(run)
    assert added.verification is not None
    assert added.verification.failed == {module: sizes[0]}
    assert (as_data(added)["failed"], as_data(added)["modules"]) == (1, MODULES)


def test_another_compiler_is_refused(run: Path) -> None:
    header = json.loads((run / "meta.json").read_text())
    (run / "meta.json").write_text(json.dumps({**header, "clang": "21.1.0"}))
    with pytest.raises(MlgoError, match=r"expected clang 21\.1\.0, got 22\.1\.8"):
        submit(run)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"environment": "mlgo/RegAllocEvict-v0"}, "expected as environment mlgo/Inline-v0"),
        ({"arguments": {"max_decisions": 1}}, "expected as arguments none"),
        ({"split": None}, "expected as split --split test"),
        ({"corpus": "builtin@O2"}, "expected as level one of Oz and Os"),
        ({"corpus": "opencc@Os"}, "expected as corpus datasets of the protocol"),
    ],
)
def test_what_deviates_from_the_protocol_is_refused(run: Path, change: dict[str, Any], complaint: str) -> None:
    header = json.loads((run / "meta.json").read_text())
    (run / "meta.json").write_text(json.dumps({**header, **change}))
    with pytest.raises(MlgoError, match=complaint):
        submit(run)


def test_a_module_of_the_training_split_is_refused(run: Path, toolchain: Toolchain) -> None:
    name = open_corpus("builtin@Os", toolchain=toolchain).split("train").names[0]
    edit(run, lambda line: line.update(module=name))
    with pytest.raises(MlgoError, match=f"got {name}"):
        submit(run)


def test_a_policy_that_saw_the_test_modules_is_flagged_at_another_level_too(run: Path, toolchain: Toolchain) -> None:
    modules = open_corpus("builtin@Oz", toolchain=toolchain).split("test")
    seen = submit(run, training=parse_digests("\n".join(digest_lines(modules)), "here"))
    assert seen.trained == tuple(sorted(seen.result.modules))
    assert standings([seen])[0].rows[0][-1] == f"trained on {MODULES}, partial"
    assert f"trained on {MODULES} of its {MODULES} modules: {seen.trained[0]}" in remarks([seen])[0]


def test_a_policy_that_saw_others_is_not(run: Path, toolchain: Toolchain) -> None:
    modules = open_corpus("builtin@Os", toolchain=toolchain).split("train")
    assert submit(run, training=parse_digests("\n".join(digest_lines(modules)), "here")).trained == ()


@pytest.mark.parametrize("name", bundled_policies())
def test_a_bundled_policy_has_its_training_digests(name: str, made: Path, tmp_path: Path, toolchain: Toolchain) -> None:
    # The sizes are those of a rule: a board knows a policy by its identity.
    header = json.loads((made / "meta.json").read_text())
    run = Path(shutil.copytree(made, tmp_path / "run"))
    header["policies"] = {"default": "default", name: policy_identity(name)}
    (run / "meta.json").write_text(json.dumps(header))
    lines = (run / "episodes.jsonl").read_text().replace('"threshold:5"', f'"{name}"')
    (run / "episodes.jsonl").write_text(lines)
    added = submit(run)
    assert added.trained == ()
    assert added.manifest.policy_sha256 == file_digest(bundled_file(name))
    facts_of_others = added.folder / RESULTS / "modules.jsonl"
    learned = [
        ModuleFacts.of(module)
        for dataset in ("builtin@Os", "builtin@Oz")
        for module in open_corpus(dataset, toolchain=toolchain).split("train")
    ]
    digests = digests_of_policy(bundled_file(name))
    assert digests is not None
    trained = trained_on(digests, {facts.module: facts for facts in learned})
    # Labels of a target are of fewer modules of `builtin`.
    assert len(trained) >= (15 if name == "inline-oz-thumbv7em" else 25)
    # Put a module of the training split on the board under the name of a test module.
    for line, facts in zip(added.result.modules, (each for each in learned if each.module in trained), strict=False):
        text = facts_of_others.read_text().splitlines()
        changed = [
            json.dumps({**json.loads(each), "digest": facts.digest, "source": facts.source})
            if json.loads(each)["module"] == line
            else each
            for each in text
        ]
        facts_of_others.write_text("".join(f"{each}\n" for each in changed))
    (flagged,) = load_board(run.parent / "board")
    assert flagged.trained == tuple(sorted(flagged.result.modules))


def test_training_digests_are_in_the_file_or_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "policy.safetensors"
    file.write_bytes(format_tensors({}, {METADATA: "a" * 16}))
    assert digests_of_policy(file) == frozenset({"a" * 16})
    file.with_name("policy.safetensors.training.txt").write_text(f"{'b' * 64}  # zstd/huf\n")
    assert digests_of_policy(file) == frozenset({"a" * 16, "b" * 64})
    write_sidecar_digests(tmp_path / "next.safetensors", sidecar_digests(file))
    assert parse_digests((tmp_path / "next.safetensors.training.txt").read_text(), "here") == frozenset({"b" * 64})
    (tmp_path / "other.onnx").write_bytes(b"")
    assert digests_of_policy(tmp_path / "other.onnx") is None
    with pytest.raises(MlgoError, match="got 'zstd'"):
        parse_digests("zstd", "here")


def test_a_name_stays_in_the_folder(run: Path) -> None:
    for name in ("../ours", ".ours", ""):
        with pytest.raises(MlgoError, match="expected the name of a folder"):
            add(run, run.parent / "board", name, partial=True)
