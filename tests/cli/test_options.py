"""Options that several commands share."""

from __future__ import annotations

import sys

import pytest

from mlgo_gym.cli.options import CompilerOptions, ExecutionOptions, fill_ray_value, parse_settings
from mlgo_gym.errors import MissingExtraError, MlgoError
from tests.cli.command import run


def test_options_are_arguments_of_an_environment() -> None:
    assert CompilerOptions().arguments() == {}
    settings = ["observation=dict", "compile_options.cpu_limit=7"]
    assert CompilerOptions("clang-22", 2.5, float("inf"), settings, trust_flags=True).arguments() == {
        "clang": "clang-22",
        "observation": "dict",
        "compile_options": {"trust_flags": True, "memory_limit": 2.5, "cpu_limit": 7},
    }
    # No limit is written as JSON can.
    assert CompilerOptions(memory_limit=float("inf")).arguments() == {"compile_options": {"memory_limit": None}}


def test_settings_are_json_or_else_strings() -> None:
    texts = ["a=1", "b=[1, 2]", "c=null", "d=dict", 'e="1"', "f=x=y"]
    assert parse_settings(texts) == {"a": 1, "b": [1, 2], "c": None, "d": "dict", "e": "1", "f": "x=y"}
    for text in ("", "a", "=1", "a b=1", "options.a=1"):
        with pytest.raises(MlgoError, match="expected --set NAME=VALUE"):
            run("evaluate", "mlgo/Inline-v0", "--set", text)


def test_the_address_of_a_cluster_is_optional() -> None:
    for words in ("--ray", "--ray --jobs 2", "--ray mlgo/Inline-v0"):
        filled = words.replace("--ray", "--ray=").split()
        assert fill_ray_value(["evaluate", *words.split()]) == ["evaluate", *filled]
    for address in ("10.0.0.1:6379", "[::1]:6379", "ray://head:10001", "auto"):
        for given in (["--ray", address], [f"--ray={address}", "--jobs", "2"]):
            assert fill_ray_value(["evaluate", *given]) == ["evaluate", *given]


def test_the_environment_names_the_cluster_where_the_option_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    addresses = [ExecutionOptions(ray=address).execution().ray for address in (None, "", "auto")]
    monkeypatch.delenv("RAY_ADDRESS")
    assert [*addresses, ExecutionOptions(ray="").execution().ray] == [None, "10.0.0.1:6379", "auto", "local"]


@pytest.mark.parametrize(
    ("library", "extra", "command"),
    [
        ("ray", "ray", "evaluate mlgo/Inline-v0 --limit 1 --ray="),
        ("onnx", "onnx", "export onnx --policy inline-oz-fast --output /dev/null/model"),
        ("ai_edge_litert.schema_py_generated", "tflite", "export tflite --policy inline-oz-fast --output /dev/null/m"),
    ],
)
def test_the_extra_of_a_missing_library_is_named(
    library: str, extra: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=rf"\[{extra}\]'"):
        run(*command.split())
