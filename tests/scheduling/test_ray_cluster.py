"""Work on a Ray cluster of two nodes: every item has one result, though workers die, are slow, and have no files."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.scheduling import Abroad, Backlog, EachAlone, Lost, workers
from mlgo_gym.scheduling.ray_cluster import STARTS, ray_library
from mlgo_gym.scheduling.shelf import Good, Shelf
from tests.evaluation.test_evaluation import comparable
from tests.evaluation.test_workers import FAULTY, PROGRAM, finished, until
from tests.scheduling.marks import on_a_cluster
from tests.traces import ends_within

pytest.importorskip("ray")

pytestmark = [pytest.mark.libraries, *on_a_cluster(300)]


def start_here(room: int) -> EachAlone[int, Any]:
    raise AssertionError("the work was to be done elsewhere")


def abroad(work: Callable[[int, Shelf], Any], pack: Callable[[str], Good] = lambda _: {}) -> Abroad[int, Any]:
    """Return work on numbers, of which each needs the files of its name."""

    def start(room: int, shelf: Shelf) -> EachAlone[int, Any]:
        return EachAlone(partial(lambda shelf, number: work(number, shelf), shelf))

    return Abroad(start, lambda number: f"file {number}", pack)


def run(address: str, work: Callable[[int, Shelf], Any], items: int, **more: Any) -> dict[int, Any]:
    with workers(start_here, ray=address, abroad=lambda: abroad(work, **more)) as running:
        return dict(running.run(Backlog(range(items))))


def test_files_come_by_their_content_and_go_with_the_last_worker(cluster: str) -> None:
    def work(number: int, shelf: Shelf) -> tuple[str, str]:
        folder = shelf.folder(f"file {number}")
        return (folder / "within/content").read_text(), str(folder)

    found = run(cluster, work, 8, pack=lambda name: {"within/content": f"{int(name.split()[1]) // 2}".encode()})
    assert [found[number][0] for number in range(8)] == [str(number // 2) for number in range(8)]
    folders = {Path(folder) for _, folder in found.values()}
    assert len(folders) == 4  # of two items that need the same, the second one finds it
    assert not any(folder.parent.exists() for folder in folders)


def test_items_of_a_worker_that_is_killed_run_again_and_a_deadly_one_is_lost(cluster: str, tmp_path: Path) -> None:
    def work(number: int, shelf: Shelf) -> int:
        mark = tmp_path / str(number)
        if number == 5 or (number == 2 and not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number**2

    found = run(cluster, work, 8)
    assert isinstance(found.pop(5), Lost)
    assert found == {number: number**2 for number in range(8) if number != 5}


def test_quick_items_come_many_to_a_message(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlgo_gym.scheduling.ray_cluster.MESSAGE_SECONDS", 0.1)

    def work(number: int, shelf: Shelf) -> int:
        if number == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.005)
        return number

    found = run(cluster, work, 60)
    assert isinstance(found.pop(20), Lost)
    assert found == {number: number for number in range(60) if number != 20}


def test_an_item_that_is_slow_at_the_end_runs_elsewhere_too(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlgo_gym.scheduling.crew.SLOW_SECONDS", 1.0)

    def work(number: int, shelf: Shelf) -> int:
        first = tmp_path / f"first {number}"
        if number == 7:
            with contextlib.suppress(FileExistsError):
                first.touch(exist_ok=False)
                (tmp_path / "slow").write_text(str(os.getpid()))
                signal.pause()
        return number

    assert run(cluster, work, 8) == {number: number for number in range(8)}
    assert ends_within(int((tmp_path / "slow").read_text()), 20)


def test_a_runner_that_cannot_be_made_is_an_error_with_the_nodes_name(cluster: str) -> None:
    def start(room: int, shelf: Shelf) -> EachAlone[int, int]:
        raise MlgoError("clang 22 was wanted")

    with (
        pytest.raises(MlgoError, match=r"the node .*: clang 22 was wanted"),
        workers(start_here, ray=cluster, abroad=lambda: Abroad(start, str, lambda _: {})) as running,
    ):
        list(running.run(Backlog([1, 2])))


def test_a_node_with_another_release_is_refused(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlgo_gym.scheduling.ray_cluster.metadata.version", lambda _: "99.0")
    with pytest.raises(MlgoError, match=r"has mlgo-gym 0\.[\d.]+, and this machine 99\.0; install one version"):
        run(cluster, lambda number, shelf: number, 1)


def test_ctrl_c_ends_everything_and_the_same_command_goes_on(cluster: str, corpus: Path, tmp_path: Path) -> None:
    output, asked = tmp_path / "results", tmp_path / "asked"
    # The workers have the environment of the cluster, and not that of the driver.
    policy = tmp_path / "endless.py"
    policy.write_text(Path(FAULTY).read_text().replace('os.environ["MLGO_TEST_ASKED"]', repr(str(asked))))
    command = [str(PROGRAM), "evaluate", "mlgo/Inline-v0", "--corpus", str(corpus), "--output", str(output)]
    command += ["--policy", f"{policy}:Endless", "--ray", cluster, "--envs", "1"]
    process = subprocess.Popen(
        command,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: asked.exists() and finished(output) == 2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=100)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, err
    assert "interrupted, 1 to go; the same command goes on from there" in err
    assert finished(output) == 2


def test_an_address_where_nothing_is_is_an_error() -> None:
    started = time.monotonic()
    with pytest.raises(MlgoError, match=r"a Ray cluster was to be at 127\.0\.0\.1:1, and cannot be used"):
        run("127.0.0.1:1", lambda number, shelf: number, 1)
    assert time.monotonic() - started < 120


def test_a_cluster_that_a_busy_machine_could_not_start_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = ray_library()
    left: list[subprocess.Popen[bytes]] = []
    folders: list[Path] = []

    def init(**settings: Any) -> None:
        folders.append(Path(settings["_temp_dir"]))
        left.append(subprocess.Popen(["sh", "-c", "read line", settings["_temp_dir"]], stdin=subprocess.PIPE))
        while settings["_temp_dir"] not in Path(f"/proc/{left[-1].pid}/cmdline").read_text():
            pass  # not yet that program
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(MlgoError, match=r"a Ray cluster was to be at local.*timed out during startup"):
        run("local", lambda number, shelf: number, 1)
    assert [each.wait(20) for each in left] == [-signal.SIGKILL] * STARTS
    assert not any(folder.exists() for folder in folders)
    for each in left:
        assert each.stdin is not None
        each.stdin.close()


def test_an_evaluation_is_that_of_this_machine_and_reads_no_folder_of_it(
    cluster: str, corpus: Path, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    policy = tmp_path / "policy.py"
    policy.write_text(f"""
from pathlib import Path

class Never:
    def __init__(self, env):
        self.corpus = env.corpus

    def act(self, observation, info):
        with Path({str(seen)!r}).open("a") as file:
            print(self.corpus.path, self.corpus.module(info["module"]).bitcode, __file__, file=file)
        return 0
""")
    policies = ["default", "random", f"{policy}:Never", "clang:-mllvm,-inline-threshold=-1000"]
    here = evaluate("mlgo/Inline-v0", corpus=str(corpus), policies=policies)
    assert str(corpus) in seen.read_text()
    seen.unlink()
    there = evaluate("mlgo/Inline-v0", corpus=str(corpus), policies=policies, ray=cluster)
    assert comparable(there) == comparable(here)
    assert there.configuration == here.configuration
    assert str(corpus) not in seen.read_text()
    assert str(policy) not in seen.read_text()
