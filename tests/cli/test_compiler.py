"""The options of every command that compiles."""

from __future__ import annotations

import pytest

from mlgo_gym.cli.compiler import CompilerOptions, parse_settings
from mlgo_gym.errors import MlgoError


def test_options_that_are_not_given_are_no_arguments() -> None:
    assert CompilerOptions().arguments() == {}


def test_options_are_arguments_of_an_environment() -> None:
    options = CompilerOptions("clang-22", 2.5, float("inf"), ["observation=dict", "cpu_limit=7"], trust=True)
    assert options.arguments() == {
        "clang": "clang-22",
        "memory_limit": 2.5,
        "cpu_limit": 7,
        "trust": True,
        "observation": "dict",
    }


def test_no_limit_is_written_as_json_can() -> None:
    assert CompilerOptions(memory_limit=float("inf")).arguments() == {"memory_limit": None}


def test_settings_are_json_or_else_strings() -> None:
    texts = ["a=1", "b=[1, 2]", "c=null", "d=dict", 'e="1"', "f=x=y"]
    assert parse_settings(texts) == {"a": 1, "b": [1, 2], "c": None, "d": "dict", "e": "1", "f": "x=y"}


@pytest.mark.parametrize("text", ["", "a", "=1", "a b=1"])
def test_settings_without_a_name_are_refused(text: str) -> None:
    with pytest.raises(MlgoError, match="--set takes NAME=VALUE"):
        parse_settings([text])
