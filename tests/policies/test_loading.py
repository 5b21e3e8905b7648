"""Finding policies by what a user writes."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium as gym
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies import load_policy
from mlgo_gym.policies.loading import BUILTIN_POLICIES, policy_identity
from mlgo_gym.policies.plain_clang import plain_clang_flags

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


def test_a_class_that_asks_for_the_environment_gets_it(inline: CompilerEnv, code: Path) -> None:
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


def test_builtin_policies_and_flags_are_told_by_their_name_alone() -> None:
    for spec in (*BUILTIN_POLICIES, "threshold:20", "clang:-mllvm,-inline-threshold=20"):
        assert policy_identity(spec) == spec


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nver", "did you mean never"),
        ("default:3", "takes no argument"),
        ("threshold:many", "takes a number, found 'many'"),
        ("clang:-mllvm,-inline-threshold=20", "only an evaluation can use it"),
        ("no_such_package.policies:Name", "there is no module 'no_such_package'"),
        ("no/such/file.py:Name", "cannot be read"),
        ("FILE:Eight", "'Eight' was wanted, and the module has Seven, OfAnEnvironment, make, ready, nothing"),
        ("FILE:nothing", "has no method act"),
        (":Name", "was wanted, found ':Name'"),
    ],
)
def test_what_is_no_policy_says_why(inline: CompilerEnv, code: Path, spec: str, message: str) -> None:
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
def test_flags_have_commas_or_blanks_between_them(spec: str, flags: tuple[str, ...]) -> None:
    assert plain_clang_flags(spec) == flags


@pytest.mark.parametrize("spec", ["clang:", "clang:-a,,-b", "clang:-a 'b"])
def test_flags_that_cannot_be_told_apart_are_refused(spec: str) -> None:
    with pytest.raises(PolicyError):
        plain_clang_flags(spec)
