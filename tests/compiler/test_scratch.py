"""Scratch folders: private, in memory, and removed after hosts that were killed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from mlgo_clang.files import scratch_parent
from mlgo_gym.compiler.connection import make_scratch

MAKE = "import os; from mlgo_gym.compiler.connection import make_scratch; print(make_scratch(), flush=True)"


def test_a_host_removes_what_killed_hosts_left_and_nothing_else() -> None:
    own = make_scratch()
    assert own.stat().st_mode & 0o777 == 0o700
    assert own.parent.name.startswith(f"mlgo-gym-{os.getpid()}-")
    assert (scratch_parent() == "/dev/shm") == os.access("/dev/shm", os.W_OK)
    killed = subprocess.run(
        [sys.executable, "-c", f"{MAKE}\nos.kill(os.getpid(), 9)"], stdout=-1, text=True, check=False
    )
    left = Path(killed.stdout.strip())
    assert killed.returncode == -signal.SIGKILL
    # Process ids of other containers say nothing here.
    last = int(Path("/proc/sys/kernel/pid_max").read_text())
    young, old = (Path(scratch_parent(), f"mlgo-gym-{last}-abc-{name}") for name in ("young", "old"))
    others = [Path(scratch_parent(), name) for name in ("mlgo-gym-notes", "mlgo-gym-", "other-1-x")]
    for folder in (young, old, *others):
        folder.mkdir()
    yesterday = time.time() - 86500
    os.utime(old, (yesterday, yesterday))
    # A compiler whose host was killed while it started, and another program.
    channels = [f"-inliner-interactive-channel-base={folder}/c0" for folder in (left, f"{left.parent}-other")]
    wait = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
    orphan, other = (subprocess.Popen([*wait, channel], stdin=subprocess.PIPE) for channel in channels)
    try:
        made = Path(subprocess.check_output([sys.executable, "-c", MAKE], text=True).strip())
        assert orphan.wait(timeout=10) == -signal.SIGKILL
        assert other.poll() is None
        # Its own folder is gone too.
        assert [folder for folder in (left.parent, made.parent, old) if folder.exists()] == []
        assert [folder for folder in (own, young, *others) if not folder.exists()] == []
    finally:
        for process in (orphan, other):
            process.kill()
            process.communicate()
        for folder in (own, left.parent, young, old, *others):
            shutil.rmtree(folder, ignore_errors=True)
