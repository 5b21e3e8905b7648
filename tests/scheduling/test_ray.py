"""Work on a Ray cluster of two nodes gives the results of this process, with workers that exit or have no files."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlgo_gym import Execution, evaluate
from mlgo_gym.scheduling.ray_cluster import ray_library
from mlgo_gym.training import Labelling, NetworkSettings, PolicyTraining, TreeImitation
from tests.conftest import MakeBitcode, copy_modules
from tests.evaluation.test_episode_runner import everything

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


@pytest.mark.slow
def test_a_local_cluster_whose_first_start_fails_makes_the_same_object(make_bitcode: MakeBitcode) -> None:
    corpus = make_bitcode("families.c")
    program = f"""
from unittest import mock
import ray
from tests.ways_to_answer import INLINE, Ways, over_ray
ways = Ways(INLINE, {str(corpus)!r}, {corpus.stem!r})
with mock.patch("ray.init", side_effect=[Exception("The node timed out"), mock.DEFAULT], wraps=ray.init) as init:
    assert ways.single() == over_ray(ways)
assert init.call_count == 2
"""
    # In a process of its own: a process that has started Ray's nodes cannot use others at the same time.
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])


def test_an_evaluation_equals_a_local_one_without_its_folders(cluster: str, corpus: Path, tmp_path: Path) -> None:
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


def test_every_training(cluster: str, varied: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    small = NetworkSettings((4,), 20)
    modules = ("many_calls5/mixed", "many_calls4/many_calls")  # for fitting, and for validation
    projects = copy_modules(tmp_path / "projects", {name: Path(varied, f"{name[12:]}.bc") for name in modules})
    labelling = Labelling(f"{projects}:fit", arguments={"callee_features": True}, compiles=2)
    training = PolicyTraining(labelling, TreeImitation(1, 5, small), 2, (0.0, 20.0), str(projects))
    files = []
    for name, address in (("here", None), ("there", cluster)):
        execution, folder = Execution(ray=address), tmp_path / name
        trained = training.run(folder, execution)
        margins = json.loads((folder / "policy.json").read_bytes())["margins"]
        files.append((trained.read_bytes(), margins))
    assert files[0] == files[1]
