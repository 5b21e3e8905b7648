"""Scratch folders: one per compile, in memory, and removed after hosts that were killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlgo_gym.session.process.scratch import make_scratch, scratch_parent

MAKE = """
import os
from mlgo_gym.session.process.scratch import make_scratch
print(make_scratch(), flush=True)
os._exit(9)
"""


def made_by_another_process() -> Path:
    made = subprocess.run([sys.executable, "-c", MAKE], stdout=subprocess.PIPE, text=True, check=False)
    return Path(made.stdout.strip())


def test_a_scratch_folder_is_empty_and_private() -> None:
    folder = make_scratch()
    try:
        assert list(folder.iterdir()) == []
        assert folder.stat().st_mode & 0o777 == 0o700
        assert folder.parent.name.startswith(f"mlgo-gym-{os.getpid()}-")
    finally:
        shutil.rmtree(folder)


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no /dev/shm to write to")
def test_it_lies_in_memory() -> None:
    assert scratch_parent() == "/dev/shm"


def test_a_process_removes_the_folder_of_a_killed_one() -> None:
    left = made_by_another_process()
    assert left.is_dir()
    own = made_by_another_process()
    assert not left.exists()
    shutil.rmtree(own.parent)


def test_the_next_host_kills_a_compiler_whose_host_was_killed_while_it_started() -> None:
    left = made_by_another_process()
    waiting = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    orphan = subprocess.Popen([*waiting, f"-inliner-interactive-channel-base={left}/c0"], stdin=subprocess.PIPE)
    other = subprocess.Popen(
        [*waiting, f"-inliner-interactive-channel-base={left.parent}-other/c0"], stdin=subprocess.PIPE
    )
    try:
        shutil.rmtree(made_by_another_process().parent)
        assert orphan.wait(timeout=10) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for process in (orphan, other):
            process.kill()
            process.communicate()


def test_a_process_that_ends_leaves_no_folder() -> None:
    program = MAKE.replace("os._exit(9)\n", "")
    made = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert not Path(made.strip()).parent.exists()


def test_the_folders_of_living_processes_are_left_alone() -> None:
    own = make_scratch()
    try:
        shutil.rmtree(made_by_another_process().parent)
        assert own.is_dir()
    finally:
        shutil.rmtree(own)


@pytest.fixture
def of_another_container() -> Iterator[Path]:
    """The folder of a process of another container, in shared memory."""
    last = int(Path("/proc/sys/kernel/pid_max").read_text())
    folder = Path(scratch_parent(), f"mlgo-gym-{last}-abc-folder")
    folder.mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_the_folders_of_other_containers_are_left_alone_for_a_day(of_another_container: Path) -> None:
    shutil.rmtree(made_by_another_process().parent)
    assert of_another_container.is_dir()
    yesterday = time.time() - 86500
    os.utime(of_another_container, (yesterday, yesterday))
    shutil.rmtree(made_by_another_process().parent)
    assert not of_another_container.exists()


@pytest.mark.parametrize("name", ["mlgo-gym-notes", "mlgo-gym-", "other-1-x"])
def test_folders_of_another_form_are_left_alone(name: str) -> None:
    folder = Path(scratch_parent(), name)
    folder.mkdir()
    try:
        shutil.rmtree(made_by_another_process().parent)
        assert folder.is_dir()
    finally:
        folder.rmdir()
