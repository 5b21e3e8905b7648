"""Temporary folders appear complete or not at all, and go with their process."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.scheduling.ray_cluster import TEMPORARY
from mlgo_gym.storage.temporary_folders import complete_folder, make_process_folder, process_prefix


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_appears_when_it_is_filled(exists: bool, tmp_path: Path) -> None:
    output = tmp_path / "new" / "folder"
    if exists:
        output.mkdir(parents=True)
    with complete_folder(output) as staging:
        (staging / "file").write_text("complete")
        assert not (output / "file").exists()
    assert (output / "file").read_text() == "complete"
    assert output.stat().st_mode & 0o777 == 0o755
    assert list(output.parent.iterdir()) == [output]


def test_a_failure_leaves_nothing_and_replaces_no_file(tmp_path: Path) -> None:
    def fill(output: Path) -> None:
        with complete_folder(output) as staging:
            (staging / "file").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("old")
    with pytest.raises(OSError, match=os.strerror(errno.ENOTEMPTY)), complete_folder(tmp_path):
        pass
    assert (tmp_path / "file").read_text() == "old"
    assert not list(tmp_path.parent.glob(f".{tmp_path.name}.*"))


def test_the_folder_of_a_killed_process_is_removed_with_the_next(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, signal, sys; from mlgo_gym.storage.temporary_folders import complete_folder\n"
        "with complete_folder(pathlib.Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", program, tmp_path / "folder"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    with complete_folder(tmp_path / "folder"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_folders_of_running_processes_and_of_other_programs_stay(tmp_path: Path) -> None:
    mine = make_process_folder(tmp_path, ".made.")
    dead = tmp_path / f"{process_prefix('.made.').replace(str(os.getpid()), '4194999')}x"
    other = tmp_path / ".made.of-something-else"
    for folder in (dead, other):
        folder.mkdir()
    shutil.rmtree(make_process_folder(tmp_path, ".made."))
    assert mine.is_dir()
    assert other.is_dir()
    assert not dead.exists()


def test_names_are_short_enough_for_the_sockets_of_ray(tmp_path: Path) -> None:
    folder = make_process_folder(tmp_path, TEMPORARY)
    largest = "4194303"  # the highest process number that Linux gives
    name = folder.name.replace(str(os.getpid()), largest)
    sockets = f"/tmp/{name}/session_2026-11-22_15-57-36_834778_{largest}/sockets/plasma_store"
    assert len(sockets) <= 107
