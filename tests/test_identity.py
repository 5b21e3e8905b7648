"""Results are reused only if nothing that decides them has changed: each input in turn."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import mlgo_gym
from mlgo_gym import Execution, Labelling, MlgoError
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.evaluation import Evaluation, evaluate
from mlgo_gym.identity import identity_of, module_identity, refuse_other_identity
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.make_env import make_environment
from mlgo_gym.policies.rules import Rule
from mlgo_gym.search import CorpusSearch
from tests.conftest import copy_modules
from tests.training.label_samples import constant

INLINE = "mlgo/Inline-v0"


def flip(path: Path) -> dict[str, Any]:
    """Change one bit of a file; return no arguments."""
    data = path.read_bytes()
    path.write_bytes(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])
    return {}


def write_facts(path: Path, name: str) -> dict[str, Any]:
    """Write the link facts of one function; return no arguments."""
    LinkFacts({name: (1, 1)}).write(path)
    return {}


def test_every_file_and_every_flag_of_a_module_counts(tmp_path: Path, compile_calls: Compilation) -> None:
    files = [tmp_path / name for name in ("bitcode", "index", "profile")]
    for file in files:
        file.write_bytes(b"some contents\n")
    module = Module("m", files[0], ("-cc1", "-Oz"), files[1], (str(files[2]),))

    def keys() -> list[str]:
        modules = (module, replace(module, name="n"), replace(module, flags=("-cc1", "-Os")))
        return [*map(module_identity, modules), replace(compile_calls, module=module).key("part")]

    seen = keys()
    assert len(set(seen)) == 4
    assert keys() == seen
    moved = replace(module, name="n", bitcode=Path(shutil.copy(files[0], tmp_path / "moved")))
    assert replace(compile_calls, module=moved).key("part") == seen[-1]
    for file in files:
        flip(file)
        assert not set(keys()) & set(seen), file.name
        seen += keys()
    other = replace(compile_calls, toolchain=replace(compile_calls.toolchain, identity="another"))
    assert len({each.key() for each in (compile_calls, other, replace(compile_calls, flags=()))}) == 3
    assert compile_calls.key() != compile_calls.key("part")


Change = Callable[[Path, pytest.MonkeyPatch], Mapping[str, Any]]

CHANGES: dict[str, Change] = {
    "the environment": lambda *_: {"environment": "mlgo/Joint-v0"},
    "an argument": lambda *_: {"max_decisions": 3},
    "the form of infos": lambda *_: {"info": "numeric"},
    "a flag": lambda *_: {"compile_options": {"extra_flags": ["-O1"]}},
    "the metric": lambda *_: {"metric": "object"},
    "the features that code reads": lambda *_: {"made": {"callee_features": False, "link_facts": None}},
    "link facts": lambda folder, _: write_facts(folder / "facts", "other"),
    "clang": lambda folder, _: flip(folder / "clang"),
    "a network": lambda folder, _: flip(folder / "p.safetensors"),
    "a rule": lambda folder, _: flip(folder / "p.rule"),
    "code": lambda folder, _: flip(folder / "p.py"),
    "the release": lambda _, patch: patch.setattr(mlgo_gym, "__version__", "0.0.1") or {},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_every_input_of_a_run_counts(
    change: Change, tmp_path: Path, calls: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    zig, mode = bundled_command()
    clang, facts = tmp_path / "clang", tmp_path / "facts"
    clang.write_text(f'#!/bin/sh\nexec "{zig}" {mode} "$@"\n# some comment\n')
    clang.chmod(0o755)
    write_facts(facts, "one")
    constant(1).save(tmp_path / "p.safetensors")
    (tmp_path / "p.rule").write_text("cost_estimate < 0 # by one\n")
    (tmp_path / "p.py").write_text("class P:\n    def act(self, observation, info):\n        return 1\n# by one\n")
    specs = "default", f"mlp:{tmp_path}/p.safetensors", f"rule:{tmp_path}/p.rule", f"{tmp_path}/p.py:P"

    def identity(
        environment: str = INLINE, made: Mapping[str, Any] = MappingProxyType({}), **arguments: Any
    ) -> dict[str, Any]:
        arguments = {"callee_features": True, "link_facts": str(facts), "clang": str(clang), **arguments}
        env = make_environment(environment, {"corpus": str(calls), **arguments, **made})
        return identity_of(env, environment, arguments, dict(zip("abcd", specs, strict=True)))

    before = identity()
    refuse_other_identity(tmp_path, before, json.loads(json.dumps(identity(module_order="cycle", render_mode="ansi"))))
    moved = shutil.move(facts, tmp_path / "moved")
    refuse_other_identity(tmp_path, before, identity(link_facts=str(moved)))
    shutil.move(moved, facts)
    arguments = change(tmp_path, monkeypatch)
    with pytest.raises(MlgoError, match="cannot be mixed"):
        refuse_other_identity(tmp_path, before, identity(**arguments))


@pytest.fixture
def two(varied: str, tmp_path: Path) -> Path:
    """A folder of two modules."""
    return copy_modules(tmp_path / "two", {name: Path(varied, f"{name}.bc") for name in ("calls", "mixed")})


def test_an_evaluation_refuses_other_modules_and_policies_without_contents(two: Path, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"corpus": str(two), "output": tmp_path / "out"}
    first = evaluate(INLINE, policies={"mine": Rule(lambda *_: 1)}, **arguments)
    with pytest.raises(MlgoError, match=r"policy mine: .*; name the policy by its specification, as path/to/file\.py"):
        evaluate(INLINE, policies={"mine": Rule(lambda *_: 0)}, **arguments)
    result = evaluate(INLINE, policies={"other": Rule(lambda *_: 0)}, **arguments)
    assert result.values("mine", "text") == first.values("mine", "text") != result.values("other", "text")
    shutil.copy(two / "calls.bc", two / "mixed.bc")
    with pytest.raises(MlgoError, match="modules: recorded 2 with the digest"):
        Evaluation(INLINE, policies=["default"], **arguments)


def test_a_search_repeats_changed_modules_alone(two: Path, tmp_path: Path) -> None:
    output, recipes = tmp_path / "found.jsonl", tmp_path / "recipes"
    search = CorpusSearch(INLINE, {"corpus": str(two)}, compiles=6)
    before = {result.module: result for result in search.run(output)}
    shutil.copy(two / "calls.bc", two / "mixed.bc")
    after = {result.module: result for result in search.run(output, execution=Execution(2))}
    assert after["calls"] == before["calls"]
    assert after["mixed"].baseline == before["calls"].baseline != before["mixed"].baseline
    assert len(output.read_bytes().splitlines()) == 4
    # Results of a run without a folder of recipes have recipes too: one, since the modules are equal now.
    list(replace(search, recipes=recipes).run(output))
    assert all(result.verified for result in after.values())
    assert len(list(recipes.glob("*.recipe"))) == 1
    changes: list[dict[str, Any]] = [{"start": "never"}, {"seed": 1}, {"compiles": 5}, {"seconds": 9.0}]
    for change in changes:
        with pytest.raises(MlgoError, match="choose another output"):
            list(replace(search, **change).run(output))
    output.write_text("notes of somebody")
    with pytest.raises(MlgoError, match="got another file"):
        list(search.run(output))
    assert output.read_text() == "notes of somebody"


def test_labels_repeat_changed_and_failed_modules_alone(two: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    labelling, lines = Labelling(str(two), compiles=2), tmp_path / "labels" / "modules.jsonl"
    before = {line["module"]: line for line in labelling.run(lines.parent)}
    shutil.copy(two / "calls.bc", two / "mixed.bc")
    after = {line["module"]: line for line in labelling.run(lines.parent)}
    assert after["calls"] == before["calls"]
    assert after["mixed"]["decisions"] == before["calls"]["decisions"] != before["mixed"]["decisions"]
    failed = {**after["calls"], "labels": 0, "error": "signal 9"}
    lines.write_text(lines.read_text() + json.dumps(failed) + "\n")
    again = {line["module"]: line for line in labelling.run(lines.parent)}
    assert again["mixed"] == after["mixed"]
    assert "error" not in again["calls"]
    assert again["calls"]["labels"] == before["calls"]["labels"]
    changes: list[dict[str, Any]] = [{"policy": "never"}, {"seed": 1}, {"compiles": 1}, {"seconds": 9.0}]
    for change in changes:
        with pytest.raises(MlgoError, match="choose another output"):
            next(replace(labelling, **change).run(lines.parent))
