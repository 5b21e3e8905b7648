"""rl_zoo3 by its command lines: train an agent, watch it, and search for its hyperparameters."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("rl_zoo3", reason="rl_zoo3 is not installed")

from rl_zoo3.enjoy import enjoy
from rl_zoo3.train import train

pytestmark = [
    pytest.mark.libraries,
    pytest.mark.usefixtures("nothing_is_left"),
    pytest.mark.filterwarnings("ignore:::rl_zoo3", "ignore:::optuna", "ignore:::stable_baselines3"),
]


PPO = {"n_timesteps": 16, "n_envs": 2, "n_steps": 8, "batch_size": 8, "n_epochs": 1}

SETTINGS = Path(__file__).parents[2] / "examples" / "hyperparameters.py"

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run one of its programs in an empty folder, and return what it prints."""
    monkeypatch.chdir(tmp_path)

    def run(program: Callable[[], None], *words: str) -> str:
        monkeypatch.setattr(sys, "argv", [program.__name__, *words])
        program()
        printed = capfd.readouterr()
        return printed.out + printed.err

    return run


def environment(name: str, short: dict[str, Any]) -> list[str]:
    """The words that name an environment and its arguments."""
    arguments = [f"{key}:{value!r}" for key, value in short.items()]
    return ["--env", name, "--gym-packages", "mlgo_gym", "--env-kwargs", *arguments]


def configured(hyperparameters: dict[str, Any]) -> list[str]:
    """The words that name a file of hyperparameters, as each algorithm of the library has one; JSON is YAML."""
    Path("hyperparameters.yml").write_text(json.dumps({"default": hyperparameters}))
    return ["-conf", "hyperparameters.yml"]


def test_an_agent_is_trained_evaluated_and_watched(name: str, short: dict[str, Any], run: Run) -> None:
    with gym.make(name, **short) as env:
        policy = "MultiInputPolicy" if isinstance(env.observation_space, gym.spaces.Dict) else "MlpPolicy"
    words = [*environment(name, short), "--algo", "ppo", "-f", "logs", "--device", "cpu", "--seed", "0"]
    trained = run(train, *words, *configured(PPO | {"policy": policy}), "--eval-freq", "8", "--eval-episodes", "1")
    assert "Saving to" in trained
    folder = Path("logs/ppo") / f"{name.replace('/', '-')}_1"
    assert {"best_model.zip", "evaluations.npz"} <= {path.name for path in folder.iterdir()}
    watched = run(enjoy, *words, "-n", "6")
    assert "Episode Reward" in watched
    assert "clang's choice" in watched or "decision" in watched  # `render_mode="human"` prints each decision


def test_the_settings_of_the_examples_are_read(short: dict[str, Any], run: Run) -> None:
    words = [*environment("mlgo/Inline-v0", short), "--algo", "ppo", "-f", "logs", "--device", "cpu", "--seed", "0"]
    fewer = ["-n", "16", "-params", *(f"{name}:{value}" for name, value in PPO.items() if name != "n_timesteps")]
    printed = run(train, *words, "-conf", str(SETTINGS), *fewer)
    assert "Saving to" in printed
    assert "('gae_lambda', 0.0)" in printed
