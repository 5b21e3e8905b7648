"""A new decision point is one file and one line of registration: CONTRIBUTING's recipe, carried out."""

from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import mlgo_gym
from mlgo_gym.cli.reference import manual
from mlgo_gym.compiler.probe import probe
from mlgo_gym.errors import MlgoError
from mlgo_gym.testing import check_environment
from tests.cli.command import run, run_json
from tests.envs import toy

NAME = "mlgo/Toy-v0"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> Iterator[None]:
    """The one line of registration, and a cache in which no clang has been tried yet."""
    monkeypatch.setitem(mlgo_gym.ENVIRONMENTS, NAME, "tests.envs.toy:Toy")
    gym.register(id=NAME, entry_point="tests.envs.toy:ToyEnv", vector_entry_point="tests.envs.toy:ToyVectorEnv")
    probe.cache_clear()
    yield
    del gym.registry[NAME]
    probe.cache_clear()


def test_it_is_an_environment_like_the_others(calls: Path) -> None:
    check_environment(NAME, corpus=str(calls))


def test_clang_is_tried_with_its_own_module_and_answer(calls: Path) -> None:
    toy.answered.clear()
    gym.make(NAME, corpus=str(calls)).close()
    assert len(toy.answered) == 1


def test_it_is_a_vector_environment(calls: Path) -> None:
    envs = gym.make_vec(NAME, num_envs=2, corpus=str(calls), strict=False)
    envs.reset(seed=1)
    _, rewards, *_, info = envs.step(np.array([1, 7]))
    assert rewards.tolist() == [0, 0]
    assert info["illegal_action"].tolist() == [False, True]
    envs.close()


def test_commands_take_foreign_environments(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registration = "import gymnasium\nfrom tests.envs.toy import ToyEnv, ToyVectorEnv\ngymnasium.register("
    entries = "'mine/Toy-v0', entry_point='toys:ToyEnv', vector_entry_point='toys:ToyVectorEnv')\n"
    (tmp_path / "toys.py").write_text(registration + entries)
    monkeypatch.syspath_prepend(tmp_path)
    shown = run("env", "toys:mine/Toy-v0")
    assert shown.stdout.startswith("# mine/Toy-v0\n"), shown.output
    assert "| `callee_basic_block_count` | int64 | (1,) | the callee's blocks | 17 |\n\nThat is all." in shown.stdout
    assert "- `bias` = `0.0`: A number that nothing uses." in shown.stdout
    found = run_json("evaluate", "toys:mine/Toy-v0", "--corpus", calls, "--policy", "default,small")
    assert found["configuration"]["environment"] == "toys:mine/Toy-v0"
    refusals = {"toys:mine/Other-v0": "Other", "nowhere:mine/Toy-v0": "on PYTHONPATH", "mine/Toy-v0": "or MODULE:ID"}
    for name, error in refusals.items():
        with pytest.raises(MlgoError, match=error):
            manual(name)
    del gym.registry["mine/Toy-v0"]
