"""Policies are found by their specification."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium as gym
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.loading import plain_clang_flags, policy_identity, with_callee_features
from mlgo_gym.policies.rules import RULES

CODE = """
class Seven:
    number = 7

    def act(self, observation, info):
        return self.number


class OfAnEnvironment:
    def __init__(self, env):
        self.names = env.feature_names

    def act(self, observation, info):
        return len(self.names)


def make():
    return Seven()


ready = Seven()
nothing = 3
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return path


@pytest.mark.parametrize("name", ["Seven", "make", "ready"])
def test_a_class_a_function_and_an_object_in_a_file_are_policies(inline: CompilerEnv, code: Path, name: str) -> None:
    assert load_policy(f"{code}:{name}", inline).act(None, {}) == 7


def test_a_class_with_a_parameter_env_receives_the_environment(inline: CompilerEnv, code: Path) -> None:
    assert load_policy(f"{code}:OfAnEnvironment", inline).act(None, {}) == len(inline.feature_names)


def test_modules_are_found_in_the_working_folder(
    inline: CompilerEnv, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(code.parent)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    assert load_policy("mine:Seven", inline).act(None, {}) == 7


def test_an_edited_file_is_another_policy(inline: CompilerEnv, code: Path) -> None:
    spec = f"{code}:Seven"
    before, identity = load_policy(spec, inline).act(None, {}), policy_identity(spec)
    code.write_text(CODE.replace("7", "8"))
    assert (before, load_policy(spec, inline).act(None, {})) == (7, 8)
    assert policy_identity(spec) != identity


def test_rules_and_flags_are_identified_by_their_name() -> None:
    for spec in (*RULES, "threshold:20", "clang:-mllvm,-inline-threshold=20"):
        assert policy_identity(spec) == spec


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nver", "did you mean never"),
        ("default:3", "takes no argument"),
        ("threshold:many", "expected threshold:NUMBER, got 'threshold:many'"),
        ("clang:-mllvm,-inline-threshold=20", "only an evaluation can use it"),
        ("no_such_package.policies:Name", "there is no module 'no_such_package'"),
        ("no/such/file.py:Name", "expected a file with a policy, got no/such/file.py"),
        ("FILE:Eight", "expected a name of Seven, OfAnEnvironment, make, ready, nothing, got 'Eight'"),
        ("FILE:nothing", "expected a policy with a method act"),
        (":Name", "or path/to/file.py:Name, got ':Name'"),
    ],
)
def test_the_error_about_no_policy_gives_the_reason(inline: CompilerEnv, code: Path, spec: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        load_policy(spec.replace("FILE", str(code)), inline)


def test_an_error_in_the_users_code_is_not_hidden(inline: CompilerEnv, code: Path) -> None:
    code.write_text("import no_such_library\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        load_policy(f"{code}:Seven", inline)


def test_an_environment_of_another_package_is_refused() -> None:
    with pytest.raises(PolicyError, match="CartPole"):
        load_policy("default", gym.make("CartPole-v1"))


@pytest.mark.parametrize(
    ("spec", "flags"),
    [
        ("clang:-mllvm,-inline-threshold=20", ("-mllvm", "-inline-threshold=20")),
        ("clang:-mllvm -inline-threshold=20", ("-mllvm", "-inline-threshold=20")),
        ("clang:-mllvm '-x=a b,c'", ("-mllvm", "-x=a b,c")),
    ],
)
def test_flags_are_separated_by_commas_or_blanks(spec: str, flags: tuple[str, ...]) -> None:
    assert plain_clang_flags(spec) == flags


@pytest.mark.parametrize("spec", ["clang:", "clang:-a,,-b", "clang:-a 'b"])
def test_flags_that_cannot_be_separated_are_refused(spec: str) -> None:
    with pytest.raises(PolicyError):
        plain_clang_flags(spec)


def test_an_environment_computes_callee_features_if_a_policy_needs_them() -> None:
    arguments = {"limit": 1}
    assert with_callee_features(arguments, ["default", "inline-oz"]) == {**arguments, "callee_features": True}
    assert with_callee_features(arguments, ["default", "inline-oz-fast"]) == arguments
