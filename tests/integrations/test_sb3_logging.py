"""The reduction by project and the rate of failures become curves."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.stepping import INLINE, end_clang, make

pytest.importorskip("stable_baselines3", reason="the extra sb3 is not installed")
pytest.importorskip("tensorboard", reason="the extra sb3 is not installed")

from stable_baselines3 import PPO

from mlgo_gym.integrations.sb3 import VecEnvAdapter
from mlgo_gym.integrations.sb3_logging import ReductionLogger

pytestmark = pytest.mark.usefixtures("nothing_is_left")


class Crash(ReductionLogger):
    """Lets the first compile crash, and keeps the last infos of all episodes."""

    def __init__(self, envs: Any) -> None:
        super().__init__(episodes=1000)
        self.envs = envs
        self.infos: list[dict[str, Any]] = []

    def _on_step(self) -> bool:
        if self.n_calls == 1:
            end_clang(self.envs, 0)
        self.infos += [info for info, done in zip(self.locals["infos"], self.locals["dones"], strict=True) if done]
        return super()._on_step()


def test_reductions_by_project_and_failures_are_curves_of_tensorboard(calls: Path, tmp_path: Path) -> None:
    for project in ("one", "two"):
        (tmp_path / "corpus" / project).mkdir(parents=True)
        shutil.copy(calls, tmp_path / "corpus" / project / "calls.bc")
    envs = make(INLINE, str(tmp_path / "corpus"), 2, autoreset_mode="SameStep", max_decisions=3)
    settings = {"n_steps": 32, "batch_size": 32, "device": "cpu", "tensorboard_log": str(tmp_path / "runs")}
    agent: Any = PPO("MlpPolicy", VecEnvAdapter(envs), **settings)
    crash = Crash(envs)
    agent.learn(64, callback=crash)
    envs.close()
    (folder,) = (tmp_path / "runs").iterdir()
    accumulator = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    last = {tag: events.Scalars(tag)[-1].value for tag in events.Tags()["scalars"]}
    finished = [info for info in crash.infos if not info.get("error")]
    assert len(crash.infos) - len(finished) == 1
    assert last["failures/rate"] == pytest.approx(1 / len(crash.infos))
    assert last["failures/signal"] == last["failures/rate"]
    for project in ("one", "two"):
        reductions = [info["reduction"] for info in finished if info["module"].startswith(project)]
        assert last[f"reduction/{project}"] == pytest.approx(sum(reductions) / len(reductions))
    assert last["reduction/all"] == pytest.approx(sum(info["reduction"] for info in finished) / len(finished))
