"""A monitor shows the progress of the stages, and keeps their results."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym.reporting.curves import curves_in
from mlgo_gym.training import Monitor
from mlgo_gym.training.monitor import Progress


def test_stages_report_their_steps_and_values() -> None:
    shown: list[Progress] = []
    monitor = Monitor(shown.append)
    with monitor.stage("labels", 2, name="labels, round 1") as advance:
        advance(1)
    with monitor.stage("network", 5, done=4) as advance:
        advance(5, loss=0.5)
    monitor.record("network", labels=3)
    assert shown == [
        Progress("labels, round 1", 0, 2, {}),
        Progress("labels, round 1", 1, 2, {}),
        Progress("network", 4, 5, {}),
        Progress("network", 5, 5, {"loss": 0.5}),
    ]
    assert monitor.results == {"network": [{"labels": 3}]}
    assert set(monitor.seconds) == {"labels", "network"}


def test_a_stage_that_fails_has_its_duration() -> None:
    monitor = Monitor()
    with pytest.raises(ValueError, match="broken"), monitor.stage("labels", 1):
        raise ValueError("broken")
    assert "labels" in monitor.seconds


@pytest.mark.libraries
def test_values_become_curves_of_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("torch.utils.tensorboard", reason="TensorBoard is not installed")
    with Monitor(curves=tmp_path / "curves") as monitor, monitor.stage("network", 2) as advance:
        advance(1, loss=0.5)
        advance(2, loss=0.25)
    (curve,) = curves_in(tmp_path)
    assert (curve.name, curve.points) == ("network/loss", ((1, 0.5), (2, 0.25)))
