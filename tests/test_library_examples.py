"""The examples of training run with each library, as their headers say, for a tiny budget."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

NEEDS = {
    "sb3_ppo.py": ("stable_baselines3",),
    "maskable_ppo.py": ("sb3_contrib",),
    "cleanrl_ppo.py": ("torch", "safetensors"),
    "torchrl_ppo.py": ("torchrl", "safetensors"),
    "rllib_ppo.py": ("ray", "torch", "safetensors"),
}
"""The modules that each example imports beside ours."""


@pytest.mark.libraries
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NEEDS)
def test_an_example_trains_and_compares_itself_with_clang(name: str, tmp_path: Path) -> None:
    missing = [module for module in NEEDS[name] if importlib.util.find_spec(module) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    answer = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "builtin", "64"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert answer.returncode == 0, answer.stderr
    rows = {words[0]: words for words in map(str.split, answer.stdout.splitlines()) if words}
    modules = int(rows["clang"][1])
    assert modules > 1
    assert int(rows["untrained"][1]) == int(rows["trained"][1]) == modules
    assert rows["untrained"][2:] != rows["trained"][2:]
    if name == "maskable_ppo.py":
        assert "0 illegal actions in 64 steps" in answer.stdout


@pytest.mark.parametrize("name", NEEDS)
def test_an_example_is_under_80_lines_and_says_how_to_install_it(name: str) -> None:
    lines = (EXAMPLES / name).read_text().splitlines()
    assert len(lines) < 80
    assert sum(line.startswith("pip install 'mlgo-gym[") for line in lines) == 1
