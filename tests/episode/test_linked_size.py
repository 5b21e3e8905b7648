"""The metric `linked`, on two objects that share an inline function."""

import threading
from contextlib import closing
from pathlib import Path
from shutil import copyfile, copytree, ignore_patterns
from typing import Any

import gymnasium as gym
import pytest

from mlgo_gym import CorpusError, MlgoError, as_vector, search_module
from mlgo_gym.corpus.recording.links import LINKS_FILE, relink
from mlgo_gym.envs import InlineEnv, RegAllocEvictEnv
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.make_env import RemoteEnvironment
from mlgo_gym.search.corpus_search import make_recipe
from tests.conftest import write_files
from tests.corpus.conftest import record
from tests.fakes.drive import failed_end, play
from tests.fakes.stepping import row_info

HEADER = """
inline int shared(int n) { int s = 0; for (int i = 0; i < n; ++i) s += i * n * 77 + (s >> 3); return s; }
"""
SOURCE = """
#include "shared.h"
static int own(int n) {{ int s = 0; for (int i = 0; i < n; ++i) s += i * n * {0} + (s >> 5); return s; }}
int twice_{0}(int n) {{ return shared(n) + shared(n + 1) + own(n) + own(n + {0}); }}
"""
UNUSED = "int unused(int n) { return n * 3 + (n >> 7) * 5; }"


def end(corpus: Any, metric: str, action: int, module: str = "a.o", **options: Any) -> dict[str, Any]:
    """Play an episode with one action; return its last info."""
    return play(InlineEnv(corpus=corpus, metric=metric, **options), action, module=module)[-1].info


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> str:
    """The corpus of a library and of a program of the same objects."""
    main = "int main(int n, char **v) { return _Z7twice_5i(n) + _Z7twice_9i(n); }\n"
    files = {"shared.h": HEADER, "a.cpp": SOURCE.format(5) + UNUSED, "b.cpp": SOURCE.format(9), "main.c": main}
    project = write_files(tmp_path_factory.mktemp("build") / "project", files)
    flags = "-ffunction-sections -fno-exceptions -Wno-implicit-function-declaration"
    script = (
        f"$CXX {flags} -c a.cpp b.cpp; $CC {flags} -c main.c; $CC -nostdlib -shared a.o b.o -o libboth.so; "
        "$CC -nostdlib -Wl,--entry=main -Wl,--gc-sections main.o a.o b.o -o program"
    )
    recorded = record(project, script, toolchain)
    assert (recorded.status, recorded.links) == (0, 2)
    return str(recorded.corpus)


def test_the_linked_metric_is_the_size_of_the_files_linked_again(build: str) -> None:
    never, inlined = (end(build, "linked", action) for action in (0, 1))
    assert never["reduction"] == 1 - never["linked"] / never["baseline_linked"]
    # `shared` is twice in `a`, and `b` still has its copy: two files grow by more than the object.
    assert inlined["linked"] - never["linked"] > inlined["text"] - never["text"] > 0
    with InlineEnv(corpus=build, metric="linked") as env:
        assert {*failed_end(env, "a.o").info} == {*never}


def test_other_links_and_other_modules_are_measured_again(build: str, tmp_path: Path) -> None:
    folder = Path(copytree(build, tmp_path / "corpus"))

    def measure() -> tuple[str, float]:
        cost = InlineEnv(corpus=str(folder), metric="linked").setup.project_costs["linked"]
        return cost.identity, cost.cost("a.o")

    before = measure()
    assert measure() == before
    links = folder / LINKS_FILE
    links.write_text(links.read_text().replace("-Wl,--gc-sections", "-Wl,--no-gc-sections"))
    other = measure()
    assert other[0] != before[0]
    assert other[1] > before[1]
    copyfile(folder / "a.o.bc", folder / "b.o.bc")
    assert InlineEnv(corpus=str(folder), metric="linked").setup.project_costs["linked"].identity != other[0]


def test_a_link_blocks_no_other_environment(build: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The linker of one environment runs until the other has taken a step."""
    stepped = threading.Event()

    def relink_later(*arguments: Any, **options: Any) -> None:
        assert stepped.wait(60), "expected a step meanwhile"
        relink(*arguments, **options)

    monkeypatch.setattr("mlgo_gym.episode.metrics.linked.relink", relink_later)
    options: dict[str, Any] = {"corpus": build, "metric": "linked", "batch_size": 1, "autoreset_mode": "SameStep"}
    with closing(as_vector(gym.make_vec("mlgo/Inline-v0", 2, prefetch=0, credit=True, **options))) as envs:
        envs.async_reset(options={"module": ["a.o", "b.o"]})
        order = [*envs.recv()[4]["env_id"], *envs.recv()[4]["env_id"]]
        assert sorted(order) == [0, 1]
        with InlineEnv(corpus=build) as env:
            decisions = sum(env.decisions(env.corpus.module("a.o")).values())
        for _ in range(decisions - 1):
            envs.send([0], [0])
            envs.recv()
        envs.send([0], [0])
        envs.send([0], [1])
        *_, info = envs.recv()
        assert (info["env_id"].tolist(), info["decision_index"].tolist()) == ([1], [1])
        stepped.set()
        _, rewards, terminations, _, info = envs.recv()
        assert (info["env_id"].tolist(), terminations.tolist()) == ([0], [True])
        last = row_info(info["final_info"], 0)
    alone = end(build, "linked", 0, credit=True)
    assert (rewards[0], last["linked"], last["credit"]) == (alone["reduction"], alone["linked"], alone["credit"])


def test_credit_and_search_take_the_metric(build: str) -> None:
    info = end(build, "linked", 1, credit=True)
    plain = info["baseline_linked"]
    assert sum(info["credit"]) == pytest.approx(plain - info["linked"])
    with InlineEnv(corpus=build, metric="linked") as env:
        found = search_module(env, env.corpus.module("a.o"), compiles=6)
        assert found.baseline == pytest.approx(plain, abs=1)
        assert found.cost <= found.baseline
        recipe = make_recipe(env, env.corpus.module("a.o"), found)
        assert (recipe.metric, recipe.costs) == ("linked", (found.cost, found.baseline))
    with RegAllocEvictEnv(corpus=build, metric="linked") as evict:
        assert "linked" in evict.task.metrics


def test_the_metric_is_refused_where_it_means_nothing(build: str, tmp_path: Path) -> None:
    unlinked = str(copytree(build, tmp_path / "corpus", ignore=ignore_patterns(LINKS_FILE)))
    with pytest.raises(CorpusError, match="expected a corpus with link steps for metric='linked', got 'corpus'"):
        end(unlinked, "linked", 0)
    with pytest.raises(MlgoError, match="expected scope='module' with metric='linked', got 'function'"):
        RegAllocEvictEnv(corpus=unlinked, metric="linked", scope="function")
    with (
        InlineEnv(corpus=build, metric="linked") as env,
        pytest.raises(MlgoError, match="expected a metric of single modules for a cluster, got linked"),
    ):
        # Other machines lack the modules of the project.
        RemoteEnvironment.of("mlgo/Inline-v0", {"metric": "linked"}, env)
