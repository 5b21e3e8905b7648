"""The examples of training run with each library, as their headers say, for a tiny budget."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import MakeBitcode

EXAMPLES = Path(__file__).parents[1] / "examples"

NEEDS = {
    "sb3_ppo.py": ("stable_baselines3",),
    "maskable_ppo.py": ("sb3_contrib",),
    "cleanrl_ppo.py": ("torch", "safetensors"),
    "torchrl_ppo.py": ("torchrl", "safetensors"),
    "rllib_ppo.py": ("ray", "torch", "safetensors"),
}
"""The modules that each example imports beside ours."""

TRAINED = {"sb3_ppo.py": {"single", "vector"}}
"""The rows of trained policies in an example's table, where it is not one named `trained`."""


@pytest.fixture(scope="session")
def small(make_bitcode: MakeBitcode, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of sixteen tiny modules; by their names four of them are for testing."""
    folder = tmp_path_factory.mktemp("small")
    for program in ("many_calls.c", "mixed.c"):
        for number in range(8):
            shutil.copy(make_bitcode(program), folder / f"{program[:-2]}{number}.bc")
    return folder


@pytest.mark.libraries
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NEEDS)
def test_an_example_says_how_to_install_it(name: str) -> None:
    lines = (EXAMPLES / name).read_text().splitlines()
    assert sum(line.startswith("pip install 'mlgo-gym[") for line in lines) == 1
