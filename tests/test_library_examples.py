"""The examples of training run with each library, as their headers say, for a tiny budget."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mlgo_gym.corpus import open_corpus
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import PROGRAMS, MakeBitcode

EXAMPLES = Path(__file__).parents[1] / "examples"

NEEDS = {
    "sb3_ppo.py": ("stable_baselines3",),
    "maskable_ppo.py": ("sb3_contrib",),
    "cleanrl_ppo.py": ("torch", "safetensors"),
    "ppo_send_recv.py": ("torch", "safetensors"),
    "ppo_credit.py": ("torch", "safetensors"),
    "torchrl_ppo.py": ("torchrl", "safetensors"),
    "rllib_ppo.py": ("ray", "torch", "safetensors"),
}
"""The modules that each example imports beside ours."""

TRAINED = {"sb3_ppo.py": {"single", "vector"}}
"""The rows of trained policies in an example's table, where it is not one named `trained`."""


@pytest.fixture(scope="session")
def small(make_bitcode: MakeBitcode, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of sixteen tiny modules, of which their names put some to testing, and some to validation."""
    folder, sources = (tmp_path_factory.mktemp(name) for name in ("small", "sources"))
    for program in ("many_calls", "mixed"):
        text = (PROGRAMS / f"{program}.c").read_text()
        for number in range(8):
            # Modules with the same content would all be on one side of a split.
            source = sources / f"{program}{number}.c"
            source.write_text(f"{text}\nint variant_{number} = {number};\n")
            shutil.copy(make_bitcode(source), folder / f"{program}{number}.bc")
    return folder


@pytest.mark.libraries
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NEEDS)
def test_an_example_trains_and_compares_itself_with_clang(
    name: str, small: Path, tmp_path: Path, toolchain: Toolchain
) -> None:
    missing = [module for module in NEEDS[name] if importlib.util.find_spec(module) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    answer = subprocess.run(
        [sys.executable, str(EXAMPLES / name), str(small), "64"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        # Whatever other cluster there is; and other tests are not to starve its workers.
        env={**os.environ, "RAY_ADDRESS": "local", "RAY_worker_niceness": "0"},
    )
    assert answer.returncode == 0, answer.stderr
    # Of several tables the first counts modules.
    rows = {words[0]: words for words in map(str.split, reversed(answer.stdout.splitlines())) if words}
    trained = TRAINED.get(name, {"trained"})
    tested = len(open_corpus(str(small), toolchain=toolchain).split("test"))
    assert 0 < tested < 16
    assert {row: int(rows[row][1]) for row in ("imitation", *trained, "clang")} == dict.fromkeys(
        ("imitation", *trained, "clang"), tested
    )
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    (first,) = (path for path in files if "imitation" in path.name)
    (last,) = (path for path in files if "last" in path.name)
    assert _weights(first) != _weights(last)  # it has learned something, good or bad
    assert len(files) == 2 + len(trained)  # what is best on validation modules is kept beside
    if name == "maskable_ppo.py":
        assert "0 illegal actions in 64 steps" in answer.stdout


def _weights(path: Path) -> bytes:
    if not zipfile.is_zipfile(path):
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        return archive.read("policy.pth")


@pytest.mark.parametrize("name", NEEDS)
def test_an_example_says_how_to_install_it(name: str) -> None:
    lines = (EXAMPLES / name).read_text().splitlines()
    assert sum(line.startswith("pip install 'mlgo-gym[") for line in lines) == 1
