"""`--ray`, whose value can be left out."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.cli.machines import address_of, with_addresses
from mlgo_gym.errors import MissingExtraError


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["evaluate", "--ray"], ["evaluate", "--ray="]),
        (["evaluate", "--ray", "--jobs", "2"], ["evaluate", "--ray=", "--jobs", "2"]),
        (["evaluate", "--ray", "mlgo/Inline-v0"], ["evaluate", "--ray=", "mlgo/Inline-v0"]),
        (["evaluate", "--ray", "10.0.0.1:6379"], ["evaluate", "--ray", "10.0.0.1:6379"]),
        (["evaluate", "--ray", "[::1]:6379"], ["evaluate", "--ray", "[::1]:6379"]),
        (["evaluate", "--ray", "ray://head:10001"], ["evaluate", "--ray", "ray://head:10001"]),
        (["evaluate", "--ray", "auto"], ["evaluate", "--ray", "auto"]),
        (["evaluate", "--ray=auto", "--jobs", "2"], ["evaluate", "--ray=auto", "--jobs", "2"]),
    ],
)
def test_a_value_is_filled_in_where_no_address_follows(words: list[str], wanted: list[str]) -> None:
    assert with_addresses(words) == wanted


def test_the_environment_names_the_cluster_where_the_option_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert (address_of(None), address_of(""), address_of("auto")) == (None, "10.0.0.1:6379", "auto")
    monkeypatch.delenv("RAY_ADDRESS")
    assert address_of("") == "local"


def test_without_ray_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    result = CliRunner().invoke(application, ["evaluate", "mlgo/Inline-v0", "--limit", "1", "--ray="])
    assert isinstance(result.exception, MissingExtraError)
    assert "pip install 'mlgo-gym[ray]'" in str(result.exception)
