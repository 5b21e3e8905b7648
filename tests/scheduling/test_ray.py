"""Work on a Ray cluster of two nodes gives the results of this process, with workers that exit or have no files."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation import evaluate, load_result
from mlgo_gym.make_env import make_environment
from mlgo_gym.scheduling import Execution, ItemQueue, RemoteWork, SequentialRunner, WorkerFailure
from mlgo_gym.scheduling.file_store import FileStore, StoredFiles
from mlgo_gym.scheduling.ray_cluster import ray_library
from mlgo_gym.search import CorpusSearch
from mlgo_gym.training import Evolution, Labelling, NetworkSettings, PolicyTraining, TreeImitation, imitate
from tests.conftest import MakeBitcode
from tests.evaluation.test_episode_runner import FAULTY, everything

pytest.importorskip("ray")

pytestmark = [
    pytest.mark.libraries,
    # Ray leaves sockets and files open until the process exits, and warns about future changes.
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.timeout(600),
    # One cluster for all tests, never two at the same time.
    pytest.mark.xdist_group("ray"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster of two nodes with one CPU each."""
    # Its settings are for the nodes too: with Ray's default niceness other tests would starve their workers.
    ray_library()
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="mlgo-ray-test-", dir="/tmp")
    store = {"object_store_memory": 80 << 20, "include_dashboard": False}
    Path("/tmp/ray").mkdir(exist_ok=True)
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "temp_dir": folder, **store})
    try:
        nodes.add_node(num_cpus=1, object_store_memory=80 << 20)
        yield nodes.address
    finally:
        nodes.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def start_here(capacity: int) -> SequentialRunner[int, Any]:
    raise AssertionError("expected work on the cluster, got work in this process")


def remote(
    work: Callable[[int, FileStore], Any], pack: Callable[[str], StoredFiles] = lambda _: {}
) -> RemoteWork[int, Any]:
    """Return work on numbers; number N needs the files named `file N`."""

    def start(capacity: int, store: FileStore) -> SequentialRunner[int, Any]:
        return SequentialRunner(partial(lambda store, number: work(number, store), store))

    return RemoteWork(start, lambda number: f"file {number}", pack)


def run(address: str, work: Callable[[int, FileStore], Any], items: int, **more: Any) -> dict[int, Any]:
    with Execution(ray=address).workers(start_here, remote=lambda: remote(work, **more)) as running:
        return dict(running.run(ItemQueue(range(items))))


def test_files_are_removed_with_their_worker(cluster: str) -> None:
    def work(number: int, store: FileStore) -> tuple[str, str]:
        folder = store.folder(f"file {number}")
        return (folder / "within/content").read_text(), str(folder)

    found = run(cluster, work, 8, pack=lambda name: {"within/content": f"{int(name.split()[1]) // 2}".encode()})
    assert [found[number][0] for number in range(8)] == [str(number // 2) for number in range(8)]

    def removed() -> bool:
        FileStore().close()  # removes the folder of a worker that was killed because it ended too slowly
        return not any(Path(folder).exists() for _, folder in found.values())

    until(removed)


def test_items_of_a_killed_worker_are_retried_and_a_deadly_one_is_lost(cluster: str, tmp_path: Path) -> None:
    def work(number: int, store: FileStore) -> int:
        mark = tmp_path / str(number)
        if number == 5 or (number == 2 and not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number**2

    found = run(cluster, work, 8)
    assert isinstance(found.pop(5), WorkerFailure)
    assert found == {number: number**2 for number in range(8) if number != 5}


def test_other_nodes_and_addresses_are_refused(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(capacity: int, store: FileStore) -> SequentialRunner[int, int]:
        raise MlgoError("expected clang 22")

    with (
        pytest.raises(MlgoError, match=r"the node .*: expected clang 22"),
        Execution(ray=cluster).workers(start_here, remote=lambda: RemoteWork(start, str, lambda _: {})) as running,
    ):
        list(running.run(ItemQueue([1, 2])))
    with pytest.raises(MlgoError, match=r"expected a Ray cluster at '127\.0\.0\.1:1', got"):
        run("127.0.0.1:1", lambda number, store: number, 1)
    monkeypatch.setattr("mlgo_gym.scheduling.ray_cluster.metadata.version", lambda _: "99.0")
    with pytest.raises(MlgoError, match=r"expected mlgo-gym 99\.0 on the node .*, got 0\.[\d.]+; install one version"):
        run(cluster, lambda number, store: number, 1)


def test_ctrl_c_ends_everything_and_the_same_command_resumes(cluster: str, corpus: Path, tmp_path: Path) -> None:
    output, asked = tmp_path / "results", tmp_path / "asked"
    command = [str(Path(sys.executable).with_name("mlgo-gym")), "evaluate", "mlgo/Inline-v0", "--corpus", str(corpus)]
    command += ["--output", str(output), "--policy", f"{FAULTY}:Endless", "--ray", cluster, "--envs", "1"]
    environment = {**os.environ, "MLGO_TEST_ASKED": str(asked)}
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        until(lambda: asked.exists() and len(load_result(output).episodes) == 2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=100)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, err
    # The signal may arrive between the write of a result and its count.
    assert re.search(r"interrupted with [12] episodes left; the same command continues", err)
    assert len(load_result(output).episodes) == 2


@pytest.mark.slow
def test_a_worker_of_a_local_cluster_makes_the_same_object(make_bitcode: MakeBitcode) -> None:
    corpus = make_bitcode("families.c")
    program = f"""
from tests.ways_to_answer import INLINE, Ways, over_ray
ways = Ways(INLINE, {str(corpus)!r}, {corpus.stem!r})
assert ways.single() == over_ray(ways)
"""
    # In a process of its own: a process that has started Ray's nodes cannot use others at the same time.
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])


def test_an_evaluation_equals_that_of_this_machine_without_its_folders(
    cluster: str, corpus: Path, tmp_path: Path
) -> None:
    seen, policy = tmp_path / "seen", tmp_path / "policy.py"
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
    there = evaluate("mlgo/Inline-v0", corpus=str(corpus), policies=policies, execution=Execution(ray=cluster))
    assert everything(there) == everything(here)
    assert there.configuration == here.configuration
    assert str(corpus) not in seen.read_text()
    assert str(policy) not in seen.read_text()


def without_times(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if "seconds" not in name}


def test_a_search_its_recipes_and_labels(cluster: str, varied: str, tmp_path: Path) -> None:
    found = []
    # A clang that inlines nothing by itself can be improved on.
    arguments = {"corpus": varied, "compile_options": {"extra_flags": ["-mllvm", "-inline-threshold=-1000"]}}
    for name, address in (("here", None), ("there", cluster)):
        execution, recipes = Execution(ray=address), tmp_path / name / "recipes"
        recipes.mkdir(parents=True)
        search = CorpusSearch("mlgo/Inline-v0", arguments, "bundles", compiles=12, recipes=recipes)
        results = {result.module: replace(result, seconds=0.0) for result in search.run(execution=execution)}
        labels = Labelling(varied, compiles=4, check=1).run(tmp_path / name / "labels", execution)
        lines = {line["module"]: without_times(line) for line in labels}
        found.append((results, {file.name: file.read_bytes() for file in recipes.iterdir()}, lines))
    assert found[0] == found[1]
    assert [len(found[0][0]), len(found[0][2])] == [4, 5]
    assert found[0][1]


def test_every_training(cluster: str, varied: str, corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    env, small = make_environment("mlgo/Inline-v0", {"corpus": str(corpus)}), NetworkSettings((4,), 20)
    labelling = Labelling(varied, arguments={"callee_features": True}, compiles=2)
    training = PolicyTraining(labelling, TreeImitation(1, 5, small), 2, (0.0, 20.0), varied)
    arguments = {"corpus": str(corpus)}
    evolution = Evolution("mlgo/Inline-v0", arguments, generations=1, directions=2, best=1, modules=2, deviation=0.5)
    files = []
    for name, address in (("here", None), ("there", cluster)):
        execution, folder = Execution(ray=address), tmp_path / name
        trained = training.run(folder, execution)
        imitate(env, rounds=2, episodes=2, settings=small, output=folder / "imitated", execution=execution)
        evolution.run(folder / "imitated", folder / "evolved", execution=execution)
        margins = json.loads((folder / "policy.json").read_bytes())["margins"]
        files.append(
            (trained.read_bytes(), margins, *((folder / part).read_bytes() for part in ("imitated", "evolved")))
        )
    assert files[0] == files[1]
