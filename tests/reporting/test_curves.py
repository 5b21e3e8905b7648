"""Curves of trainings and searches."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.reporting.curves import curves_in, is_search, read_csv, read_events, search_curve
from mlgo_gym.reporting.inputs import read_inputs
from mlgo_gym.search.search_result import SearchResult
from tests.reporting.event_file import event


def test_scalars_of_tensorboard_are_read_up_to_a_truncated_record(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1"
    path.write_bytes(event(0, "loss", 0.5) + event(3, "loss", 0.25) + event(4, "loss", 1)[:-9])
    assert list(read_events(path)) == [("loss", 0, 0.5), ("loss", 3, 0.25)]
    [curve] = curves_in(tmp_path)
    assert (curve.name, curve.origin, curve.points) == ("loss", tmp_path.name, ((0, 0.5), (3, 0.25)))


def test_a_damaged_event_file_is_a_quick_error(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1"
    endless = b"\xff" * 1_000_000  # a number of seven million bits
    path.write_bytes(struct.pack("<Q", len(endless)) + b"sum!" + endless + b"sum!")
    assert list(read_events(path)) == []
    path.write_bytes(struct.pack("<Q", 3) + b"sum!" + b"\x09\0\0" + b"sum!")
    with pytest.raises(MlgoError, match="expected the values of a training"):
        curves_in(tmp_path)


@pytest.mark.libraries
def test_files_of_tensorboard_are_read(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    writer = tensorboard.SummaryWriter(str(tmp_path / "run"))
    for step in range(300):
        writer.add_scalar("evolution/reduction", step / 4, step)
    writer.close()
    [curve] = curves_in(tmp_path)
    assert curve.origin == f"{tmp_path.name}/run"
    assert curve.points == tuple((float(step), step / 4) for step in range(300))


def test_a_csv_file_counts_its_steps_by_a_column_that_does(tmp_path: Path) -> None:
    path = tmp_path / "progress.csv"
    path.write_text("rollout/reward,time/total_timesteps,note\n0.5,100,a\n,200,b\n0.75,300,\n")
    assert list(read_csv(path)) == [("rollout/reward", 100, 0.5), ("rollout/reward", 300, 0.75)]


def search_file(path: Path) -> Path:
    header = {"environment": "mlgo/Inline-v0", "arguments": {}, "algorithm": "greedy", "compiles": 8}
    found = [
        SearchResult("a", "greedy", (1,), 90, 99, 8, 1.0, verified=True, improvements=((2, 95.0), (8, 90.0))),
        SearchResult("b", "greedy", (), 50, 50, 3, 1.0, verified=True),
        SearchResult("c", "greedy", (), 0, 0, 0, 0.0, verified=False, error="lost"),
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in [header, *(each.to_json() for each in found)]))
    return path


def test_a_search_is_the_best_compile_so_far(tmp_path: Path) -> None:
    path = search_file(tmp_path / "greedy.jsonl")
    assert is_search(path)
    curve = search_curve(path)
    assert curve is not None
    assert curve.name == "greedy (2 modules)"
    steps, changes = zip(*curve.points, strict=True)
    assert steps == (1, 2, 8)
    assert changes == pytest.approx([0, (96 / 100) ** 0.5 - 1, (91 / 100) ** 0.5 - 1])


def test_other_files_are_no_search_and_a_folder_without_anything_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text("[1]\n")
    assert not is_search(tmp_path / "notes.jsonl")
    assert not is_search(tmp_path / "nothing")
    with pytest.raises(MlgoError, match="got none; name an output"):
        read_inputs([tmp_path])
    search_file(tmp_path / "greedy.jsonl")
    assert [curve.origin for curve in read_inputs([tmp_path]).curves] == ["greedy"]
